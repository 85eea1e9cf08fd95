# Reads a uv.lock: which packages a project needs on a target, and which wheel of each.
#
# Owns: the closure (markers, extras, dependency groups) and where each package comes from. Does not own: fetching or
# building (environment). Pure: it reads the text that it is given and nothing else. What has no wheel, and what comes
# from a repository, an address without a hash or a directory that is not ours, is refused by name: nothing is built
# from foreign source, and nothing is fetched that a hash does not name.
{
  # The lock: its text.
  text,
  # What lies in the tree, by its path from the lock: { "." = …; "../compat" = …; }.
  trees ? { },
  # What it is for: see target.nix.
  target,
}:
let
  markers = import ./markers.nix;
  tags = import ./tags.nix;
  inherit (builtins)
    attrValues
    concatMap
    concatStringsSep
    elemAt
    filter
    foldl'
    fromTOML
    genericClosure
    groupBy
    head
    length
    listToAttrs
    match
    replaceStrings
    ;

  lock = fromTOML text;
  byName = groupBy (package: package.name) (lock.package or [ ]);
  choose = tags.chooser target;
  holds = marker: markers.evaluate target.markers marker;
  label = package: "${package.name} ${package.version or "(no version)"}";
  where = "${target.os} ${target.arch}, Python 3.${toString target.pythonMinor}";

  # The one package that a dependency means. uv names version and source where a name alone would not do.
  find =
    from: dependency:
    let
      fit = filter (
        package:
        (!(dependency ? version) || dependency.version == package.version)
        && (!(dependency ? source) || dependency.source == package.source)
      ) (byName.${dependency.name} or [ ]);
      here = filter (package: any holds (package.resolution-markers or [ ])) fit;
    in
    if length fit == 1 then
      head fit
    else if length here == 1 then
      head here
    else
      throw (
        "uv.lock: ${from} needs ${dependency.name}, "
        + "and there are ${toString (length fit)} of that name in the lock"
      );

  any = predicate: list: foldl' (found: item: found || predicate item) false list;

  # One entry of the closure: a package, or one extra of it.
  entry =
    package: extra: {
      key = concatStringsSep " " [
        package.name
        (package.version or "")
        (package.source.registry or "")
        (if extra == null then "" else extra)
      ];
      inherit package extra;
    };

  # What is needed because of a list of dependencies.
  needed =
    from: dependencies:
    concatMap (
      dependency:
      let
        package = find from dependency;
      in
      if dependency ? marker && !(holds dependency.marker) then
        [ ]
      else
        [ (entry package null) ] ++ map (entry package) (dependency.extra or [ ])
    ) dependencies;

  dependenciesOf =
    { package, extra, ... }:
    needed (label package) (
      if extra == null then
        package.dependencies or [ ]
      else
        package.optional-dependencies.${extra} or (throw "uv.lock: ${label package} has no extra ${extra}")
    );

  refuse = package: why: throw "uv.lock: ${label package} cannot be installed here: ${why}";

  # A package's wheels, each with its file name, which an address may spell in its own way.
  wheelsOf =
    package:
    map (
      wheel:
      wheel
      // {
        filename = replaceStrings [ "%2B" ] [ "+" ] (
          wheel.filename or (elemAt (match "(.*/)?([^/?#]+)([?#].*)?" (wheel.url or wheel.path)) 1)
        );
      }
    ) (package.wheels or [ ]);

  # Where a package comes from: { name; version; tree; } or { name; version; wheel = { filename; url; sha256; }; }.
  source =
    package:
    let
      inherit (package) name;
      found = package.source;
      inTree = found.editable or found.directory or found.virtual or null;
      wheels = wheelsOf package;
      wheel = choose wheels;
      hash = match "sha256:([0-9a-f]{64})" (wheel.hash or "");
    in
    if inTree != null then
      if trees ? ${inTree} then
        {
          inherit name;
          version = package.version or "0";
          tree = trees.${inTree};
        }
      else
        refuse package "its source is the directory ${inTree}, which is none of this tree's own"
    else if found ? git then
      refuse package "its source is the repository ${found.git}; only wheels are installed"
    else if found ? path then
      refuse package "its source is the file ${found.path}; only wheels with an address and a hash are installed"
    else if wheels == [ ] then
      refuse package "there is only a source distribution of it; only wheels are installed"
    else if wheel == null then
      refuse package "none of its wheels is for ${where}"
    else if !(wheel ? url) then
      refuse package "its wheel ${wheel.filename} has no address"
    else if hash == null then
      refuse package "its wheel ${wheel.filename} has no sha256"
    else
      {
        inherit name;
        inherit (package) version;
        wheel = {
          inherit (wheel) url filename;
          sha256 = elemAt hash 0;
        };
      };

  # The entry that a caller names.
  root =
    name:
    if byName ? ${name} then
      head byName.${name}
    else
      throw "uv.lock: there is no ${name} in it";

  closure =
    {
      name,
      extras ? [ ],
      groups ? [ ],
      # Whether the project itself and what it depends on are wanted, or the groups alone.
      project ? true,
    }:
    let
      package = root name;
      grouped = concatMap (
        group:
        needed (label package) (
          package.dev-dependencies.${group} or (throw "uv.lock: ${name} has no dependency group ${group}")
        )
      ) groups;
      start = (if project then [ (entry package null) ] ++ map (entry package) extras else [ ]) ++ grouped;
      found = genericClosure {
        startSet = start;
        operator = dependenciesOf;
      };
      packages = listToAttrs (
        map (item: {
          name = "${item.package.name} ${item.package.version or ""}";
          value = item.package;
        }) found
      );
      sources = map source (attrValues packages);
      conflicts = concatMap (map (item: item.extra or item.group or item.package)) lock.conflicts;
    in
    if lock.version or null != 1 then
      throw "uv.lock: its version is ${toString (lock.version or "missing")}, and this reads version 1"
    else if lock ? conflicts then
      throw "uv.lock: it declares conflicts (${concatStringsSep ", " conflicts}), of which this reads none"
    else
      sources;
in
{
  inherit closure;
  requiresPython = lock.requires-python or "";
  versionOf = name: (root name).version;
  # The names that a dependency group of a project lists itself.
  members = name: group: map (dependency: dependency.name) (root name).dev-dependencies.${group};
  # Every marker and every package's wheels, for the test that compares with `packaging`.
  chosen = map (package: {
    inherit (package) name;
    version = package.version or "";
    filename = (choose (wheelsOf package)).filename or null;
  }) (lock.package or [ ]);
}
