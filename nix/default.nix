# Everything that is built here, for one package set: `import ./nix { inherit pkgs; }`.
#
# Owns: which Python, and how app, PM and wrapper go together. The flake and the overlay are made of this.
{
  pkgs,
  # The interpreter; without one, the package set's default, else its newest that both locks are for.
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
  # The default of the package set comes first: wheels follow a new Python with a delay.
  minorOf = name: builtins.fromJSON (builtins.head (builtins.match "python3([0-9]+)" name));
  named = builtins.sort (a: b: minorOf b < minorOf a) (
    builtins.filter (name: builtins.match "python3[1-9][0-9]*" name != null) (builtins.attrNames pkgs)
  );
  isReleased = found: !(versions.parse found.version).isPre;
  candidates = builtins.filter isReleased ([ pkgs.python3 ] ++ map (name: pkgs.${name}) named);
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
