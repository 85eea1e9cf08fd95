{
  description = "Perdure: a guarded tool runtime for AI agents, kept alive by its own package manager";

  # The only input. What is installed besides comes from uv.lock and pm/uv.lock, by address and hash.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      each =
        make:
        builtins.listToAttrs (
          map (system: {
            name = system;
            value = make nixpkgs.legacyPackages.${system};
          }) systems
        );
      builds = pkgs: import ./default.nix { inherit pkgs; };
      start = package: name: description: {
        type = "app";
        program = "${package}/bin/${name}";
        meta = { inherit description; };
      };
    in
    {
      packages = each (
        pkgs:
        let
          built = builds pkgs;
        in
        {
          inherit (built) pm app;
          default = built.perdure;
        }
      );

      apps = each (
        pkgs:
        let
          built = builds pkgs;
        in
        rec {
          perdure = start built.perdure "perdure" "The guarded tool runtime";
          pm = start built.perdure "perdure-pm" "Its package manager: status, doctor, plan";
          default = perdure;
        }
      );

      devShells = each (
        pkgs:
        let
          built = builds pkgs;
        in
        {
          # What a checkout needs: a Python for pm/bootstrap.py, git, and the uv that the lock pins.
          default = pkgs.mkShell {
            packages = [
              built.python
              built.uv
              pkgs.git
            ];
          };
        }
      );

      overlays.default = final: prev: {
        perdure = (builds final).perdure;
        perdure-pm = (builds final).pm;
      };

      nixosModules.default = import ./nixos-module.nix self;
      homeManagerModules.default = import ./home-manager-module.nix self;

      checks = each (pkgs: import ./checks.nix { inherit pkgs; built = builds pkgs; });
    };
}
