# PM: from pm/uv.lock, pm/ and compat/ alone. Nothing of the app, nor of the root's lock, moves its path.
{
  pkgs,
  python,
  text ? builtins.readFile ../pm/uv.lock,
}:
let
  environment = import ./environment.nix { inherit pkgs python; };
  sources = import ./sources.nix;
  lock = import ./lock.nix {
    inherit text;
    inherit (environment) target;
    trees = {
      "." = sources.pm;
      "../compat" = sources.compat;
    };
  };
  version = lock.versionOf "perdure-pm";
  stamp = builtins.toJSON {
    schema = 1;
    manager = "nix";
    host = null;
    plugins = [ ];
    app = null;
    python = python.version;
    uv = environment.uv.version;
  };
in
environment.make {
  pname = "perdure-pm";
  inherit version;
  sources = lock.closure { name = "perdure-pm"; };
  # PM that lies in the store says so of itself: it never installs anything, whoever starts it.
  finish = ''
    printf '%s\n' ${pkgs.lib.escapeShellArg stamp} >"$out/install.json"
    mkdir -p "$out/share/perdure"
    cp ${sources.merge} "$out/share/perdure/merge_yaml.py"
    printf '#!%s\nexec "%s" -I -c "import sys; from perdure_pm.cli import main; sys.exit(main())" "$@"\n' \
      ${pkgs.runtimeShell} "$out/bin/python" >"$out/bin/perdure-pm"
    printf '#!%s\nexec "%s" -I "%s" "$@"\n' \
      ${pkgs.runtimeShell} "$out/bin/python" "$out/share/perdure/merge_yaml.py" >"$out/bin/perdure-merge-yaml"
    chmod 755 "$out/bin/perdure-pm" "$out/bin/perdure-merge-yaml"
  '';
  passthru = {
    inherit (environment) uv;
    inherit lock python;
  };
}
