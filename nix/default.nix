# Everything that is built here, for one package set: `import ./nix { inherit pkgs; }`.
#
# Owns: which Python, and how app, PM and wrapper go together. The flake and the overlay are made of this.
{
  pkgs,
  # The interpreter; without one, the newest of the package set that both projects' requires-python holds for.
  python ? null,
  # The locks, for whoever has others that answer the same projects.
  pmLock ? builtins.readFile ../pm/uv.lock,
  appLock ? builtins.readFile ../uv.lock,
}:
let
  versions = import ./versions.nix;
  required = map (text: (fromTOML text).requires-python or "") [
    pmLock
    appLock
  ];
  wanted = builtins.concatStringsSep " and " required;
  isFit = found: builtins.all (versions.satisfiesAll found.version) required;
  # Newest last in nixpkgs, but wheels follow a new Python with a delay: the default of the package set comes first.
  candidates = builtins.filter (found: found != null) (
    map (name: pkgs.${name} or null) [
      "python3"
      "python313"
      "python312"
      "python311"
    ]
  );
  fit = builtins.filter isFit candidates;
  chosen =
    if python != null then
      (
        if isFit python then
          python
        else
          throw "perdure: Python ${python.version} is not one that the locks are for: ${wanted}"
      )
    else if fit == [ ] then
      throw "perdure: this package set has no Python that the locks are for: ${wanted}"
    else
      builtins.head fit;
in
rec {
  python = chosen;
  pm = import ./pm.nix {
    inherit pkgs python;
    text = pmLock;
  };
  app = import ./app.nix {
    inherit pkgs python;
    text = appLock;
  };
  perdure = import ./wrapper.nix { inherit pkgs app pm; };
  inherit (pm) uv;
}
