# Home Manager: `programs.perdure.enable` has the commands for one person.
#
# Owns: options. Does not own: what is installed. A person's settings stay files that the app and that person write.
flake:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  chosen = config.programs.perdure;
in
{
  options.programs.perdure = {
    enable = lib.mkEnableOption "Perdure, a guarded tool runtime for AI agents";
    package = lib.mkOption {
      type = lib.types.package;
      default = flake.packages.${pkgs.stdenv.hostPlatform.system}.default;
      defaultText = "the flake's own";
      description = "What is installed.";
    };
    home = lib.mkOption {
      type = lib.types.nullOr lib.types.str;
      default = null;
      description = "Where the app keeps its state (PERDURE_HOME); null for the usual place.";
    };
  };

  config = lib.mkIf chosen.enable {
    home.packages = [ chosen.package ];
    home.sessionVariables = lib.mkIf (chosen.home != null) { PERDURE_HOME = chosen.home; };
  };
}
