# The app's environment: from the root's uv.lock, the app, compat and the plugins that ship with it.
#
# Nothing of PM's lock moves its path, but for the uv that builds the wheels of this tree.
{
  pkgs,
  python,
  text ? builtins.readFile ../uv.lock,
}:
let
  environment = import ./environment.nix { inherit pkgs python; };
  sources = import ./sources.nix;
  lock = import ./lock.nix {
    inherit text;
    inherit (environment) target;
    trees = {
      "." = sources.app;
      "compat" = sources.compat;
      "plugins/facts" = sources.facts;
    };
  };
in
environment.make {
  pname = "perdure-app";
  version = lock.versionOf "perdure";
  sources = lock.closure {
    name = "perdure";
    groups = [ "bundled" ];
  };
  passthru = {
    inherit lock python;
    plugins = lock.members "perdure" "bundled";
  };
}
