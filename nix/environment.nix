# An environment of wheels: what a closure names, unpacked and compiled into one directory of the store.
#
# Owns: fetching, building what lies in the tree, and the derivation. Does not own: which packages (lock.nix), nor how a
# wheel is unpacked (install_wheels.py).
{ pkgs, python }:
let
  inherit (builtins) concatStringsSep filter map;
  inherit (pkgs) stdenv;
  target = import ./target.nix { inherit pkgs python; };
  fetch =
    source:
    pkgs.fetchurl {
      name = source.wheel.filename;
      inherit (source.wheel) url sha256;
    };

  # uv as PM pins it. Its musllinux wheel is one static binary, which runs on every Linux as it is.
  uv =
    let
      isLinux = target.os == "linux";
      lock = import ./lock.nix {
        text = builtins.readFile ../pm/uv.lock;
        target =
          target
          // (
            if isLinux then
              {
                libc = {
                  name = "musl";
                  minor = 2;
                };
              }
            else
              { }
          );
        trees = { };
      };
      sources = lock.closure {
        name = "perdure-pm";
        groups = [ "tools" ];
        project = false;
      };
    in
    make {
      pname = "uv";
      version = lock.versionOf "uv";
      inherit sources;
    };

  make =
    {
      pname,
      version,
      # What lock.nix's closure returns.
      sources,
      # Commands of sh that run after everything is there, for what else belongs into $out.
      finish ? "",
      passthru ? { },
    }:
    let
      trees = filter (source: source ? tree) sources;
      wheels = map fetch (filter (source: source ? wheel) sources);
      # The same backend that the project names; it is a part of uv and needs nothing from an index.
      build = source: ''
        ${uv}/bin/uv build --wheel --offline --no-cache --no-config --no-create-gitignore --quiet \
          --python ${python.interpreter} --out-dir "$wheels" ${source.tree}
      '';
      isLinux = target.os == "linux";
    in
    stdenv.mkDerivation {
      inherit pname version passthru;
      dontUnpack = true;
      dontConfigure = true;
      dontBuild = true;
      dontStrip = true;
      # Compiled modules find the C library and libgcc_s through their RPATH: wheels are made for other systems. Called
      # below, and not by itself at the end: RECORD is to name the bytes that stay.
      dontAutoPatchelf = true;
      nativeBuildInputs = if isLinux then [ pkgs.autoPatchelfHook ] else [ ];
      buildInputs = if isLinux then [ stdenv.cc.cc.lib ] else [ ];
      # Hash randomisation reaches the order of sets in byte code.
      PYTHONHASHSEED = "0";
      # The last command is one of the shell's own: a shell that execs its last program is gone before phases end.
      installPhase = ''
        wheels=$PWD/wheels
        mkdir -p "$wheels"
        export HOME=$PWD/home
        ${concatStringsSep "" (map build trees)}
        set -- ${concatStringsSep " " (map toString wheels)}
        for wheel in "$wheels"/*.whl; do
          if [ -e "$wheel" ]; then set -- "$@" "$wheel"; fi
        done
        ${python.interpreter} -I -B ${./install_wheels.py} "$out" "$@"
        if type autoPatchelf >/dev/null 2>&1; then
          autoPatchelf -- "$out"
          ${python.interpreter} -I -B ${./install_wheels.py} --record "$out"
        fi
        ${finish}
        true
      '';
    };
in
{
  inherit make target uv;
}
