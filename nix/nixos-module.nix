# NixOS: `programs.perdure.enable` has the commands for everybody, `programs.perdure.doctor.enable` a timer that looks
# after them.
#
# Owns: options and units. Does not own: what they run. There is no service of the app's own yet: it has no network
# surface, and starts where somebody calls it.
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
    doctor = {
      enable = lib.mkEnableOption "a timer that runs `perdure doctor`, whose unit fails where something is wrong";
      calendar = lib.mkOption {
        type = lib.types.str;
        default = "daily";
        description = "When, as systemd.time(7) has it.";
      };
    };
  };

  config = lib.mkIf chosen.enable {
    environment.systemPackages = [ chosen.package ];
    systemd.services = lib.mkIf chosen.doctor.enable {
      perdure-doctor = {
        description = "Look whether Perdure is as it was installed";
        serviceConfig = {
          Type = "oneshot";
          ExecStart = "${chosen.package}/bin/perdure doctor";
          Environment = "PERDURE_HOME=/var/lib/perdure";
          StateDirectory = "perdure";
          DynamicUser = true;
          CapabilityBoundingSet = "";
          LockPersonality = true;
          NoNewPrivileges = true;
          PrivateDevices = true;
          PrivateNetwork = true;
          PrivateTmp = true;
          ProtectClock = true;
          ProtectControlGroups = true;
          ProtectHome = true;
          ProtectKernelLogs = true;
          ProtectKernelModules = true;
          ProtectKernelTunables = true;
          ProtectSystem = "strict";
          RestrictAddressFamilies = "AF_UNIX";
          RestrictNamespaces = true;
          RestrictRealtime = true;
          SystemCallArchitectures = "native";
          UMask = "0077";
        };
      };
    };
    systemd.timers = lib.mkIf chosen.doctor.enable {
      perdure-doctor = {
        description = "Look after Perdure from time to time";
        wantedBy = [ "timers.target" ];
        timerConfig = {
          OnCalendar = chosen.doctor.calendar;
          Persistent = true;
          RandomizedDelaySec = "10m";
        };
      };
    };
  };
}
