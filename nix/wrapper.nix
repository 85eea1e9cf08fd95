# What a person installs: the commands, and the install stamp that says where app and PM are.
#
# Owns: bin/perdure, bin/perdure-pm and the stamp. Does not own: what they start. Each environment gets a place of its
# own here whose files are links into the store, so that a process knows by its own prefix which installation it belongs
# to; no variable can send it to another one.
{
  pkgs,
  app,
  pm,
}:
let
  plugins = builtins.concatStringsSep " " app.plugins;
in
pkgs.stdenv.mkDerivation {
  pname = "perdure";
  inherit (app) version;
  dontUnpack = true;
  dontStrip = true;
  installPhase = ''
    place() { # place PREFIX ENVIRONMENT: has the environment's contents below PREFIX, as links
      mkdir -p "$1/bin"
      cp "$2/pyvenv.cfg" "$1/pyvenv.cfg"
      ln -s "$2/lib" "$1/lib"
      for file in "$2"/bin/*; do
        case ''${file##*/} in
        # The interpreter's link is copied: an interpreter looks for pyvenv.cfg where it was called.
        python*) cp -P "$file" "$1/bin/" ;;
        perdure*) ;;
        *) ln -s "$file" "$1/bin/" ;;
        esac
      done
    }
    # A person's PATH gets the three commands alone, neither a Python nor what libraries bring.
    place "$out/venv" ${app}
    place "$out/pm" ${pm}
    ln -s ../install.json "$out/pm/install.json"
    mkdir "$out/bin"
    cat >"$out/bin/perdure-pm" <<EOF
    #!${pkgs.runtimeShell}
    exec "$out/pm/bin/python" -I -c "import sys; from perdure_pm.cli import main; sys.exit(main())" "\$@"
    EOF
    cat >"$out/bin/perdure" <<EOF
    #!${pkgs.runtimeShell}
    if [ "\''${1-}" = pm ]; then
      shift
      exec "$out/bin/perdure-pm" "\$@"
    fi
    exec "$out/venv/bin/python" -I -m perdure "\$@"
    EOF
    chmod 755 "$out/bin/perdure" "$out/bin/perdure-pm"
    ln -s ${pm}/bin/perdure-merge-yaml "$out/bin/perdure-merge-yaml"
    ${pm}/bin/python -I -B ${./describe_install.py} "$out" ${app} ${pm} ${pm.uv.version} ${plugins}
    true
  '';
  passthru = {
    inherit app pm;
    inherit (pm) uv;
  };
  meta = {
    description = "A guarded tool runtime for AI agents, kept alive by its own package manager";
    mainProgram = "perdure";
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
      "x86_64-darwin"
      "aarch64-darwin"
    ];
  };
}
