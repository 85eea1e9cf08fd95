# The part of nixpkgs that nix/ uses.
#
# Owns: stand-ins of the same names and the same meaning, made of the shell, the coreutils and a Python of the machine.
# Does not own: anything that is tried with them. Phases run as those of nixpkgs do: in one shell, with `set -e`.
{
  system ? builtins.currentSystem,
  machine ? import ./machine.nix,
}:
let
  isLinux = builtins.match ".*-linux" system != null;
  libc = {
    version = machine.glibc;
  };
  escape = text: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] text}'";
in
rec {
  lib = {
    escapeShellArg = text: escape (toString text);
    mkEnableOption = description: {
      inherit description;
      default = false;
    };
    mkOption = option: option;
    mkIf = condition: content: if condition then content else { };
    types = {
      package = "package";
      str = "str";
      nullOr = type: "null or ${type}";
    };
  };
  runtimeShell = "/bin/sh";
  # The one of nixpkgs gives compiled modules an RPATH. Here they need none; what shows is that their bytes change after
  # they were unpacked: a byte at the end of a module hurts nobody.
  autoPatchelfHook = ''
    autoPatchelf() {
      [ "$1" = -- ] && [ -d "$2" ]
      find "$2" -type f -name '*.so' | while read -r module; do printf '\0' >>"$module"; done
    }
  '';
  git = null;

  python3 = {
    inherit (machine) interpreter version;
    outPath = machine.base;
  };

  fetchurl =
    {
      name,
      url,
      sha256,
    }:
    derivation {
      inherit name;
      builder = "builtin:fetchurl";
      system = "builtin";
      inherit url;
      urls = [ url ];
      outputHashMode = "flat";
      outputHashAlgo = "sha256";
      outputHash = sha256;
      executable = false;
      unpack = false;
      preferLocalBuild = true;
    };

  mkShell =
    { packages }:
    stdenv.mkDerivation {
      name = "shell";
      dontUnpack = true;
      packages = builtins.filter (package: package != null) packages;
      installPhase = ''
        mkdir -p "$out"
        true
      '';
    };

  stdenv = {
    hostPlatform = {
      inherit system isLinux;
      isDarwin = !isLinux;
      isMusl = false;
      parsed.cpu.name = builtins.head (builtins.match "([^-]+)-.*" system);
    };
    cc.libc = libc;
    cc.cc.lib = null;
    mkDerivation =
      attributes:
      let
        given = removeAttrs attributes [
          "passthru"
          "meta"
          "nativeBuildInputs"
          "buildInputs"
        ];
        name = attributes.name or "${attributes.pname}-${attributes.version}";
        hooks = builtins.concatStringsSep "\n" (
          builtins.filter builtins.isString (attributes.nativeBuildInputs or [ ])
        );
        built = derivation (
          given
          // {
            inherit name system;
            builder = "/bin/sh";
            args = [
              "-euc"
              ''
                PATH=/usr/bin:/bin
                export PATH SOURCE_DATE_EPOCH=1
                cd "$NIX_BUILD_TOP"
                ${hooks}
                eval "$installPhase"
              ''
            ];
          }
        );
      in
      (attributes.passthru or { })
      // built
      // {
        version = attributes.version or "";
        meta = attributes.meta or { };
        passthru = attributes.passthru or { };
      };
  };
}
