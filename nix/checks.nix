# What `nix flake check` builds: that what was built starts, and answers.
#
# Owns: those runs. Does not own: everything else that is promised of it, which tests/nix tries.
{ pkgs, built }:
let
  run =
    name: commands:
    pkgs.stdenv.mkDerivation {
      name = "perdure-check-${name}";
      dontUnpack = true;
      installPhase = ''
        export HOME=$PWD/home PERDURE_HOME=$PWD/home/perdure
        mkdir -p "$HOME"
        ${commands}
        true >"$out"
        true
      '';
    };
in
{
  starts = run "starts" ''
    ${built.perdure}/bin/perdure --version
    ${built.perdure}/bin/perdure plugins
    ${built.perdure}/bin/perdure pm status
    ${built.perdure}/bin/perdure pm doctor
    ${built.perdure}/bin/perdure pm plan
  '';
  refuses = run "refuses" ''
    code=0
    ${built.perdure}/bin/perdure-pm install || code=$?
    [ "$code" = 10 ]
    [ ! -e "$PERDURE_HOME" ]
  '';
  merges = run "merges" ''
    printf 'a: 1\nb: 2\n' >defaults.yaml
    printf '# mine\na: 3\n' >mine.yaml
    ${built.pm}/bin/perdure-merge-yaml defaults.yaml mine.yaml --out merged.yaml
    [ "$(cat merged.yaml)" = "$(printf '# mine\na: 3\nb: 2')" ]
  '';
  uv = run "uv" ''
    ${built.uv}/bin/uv --version
  '';
}
