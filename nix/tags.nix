# Which wheels run on a target, and which of them is the best.
#
# Owns: the ordered tags of a target, a wheel's file name, the choice. Does not own: what the target is (target). Pure.
# The order is the one of `packaging.tags`, which every installer follows.
let
  inherit (builtins)
    concatMap
    elemAt
    filter
    foldl'
    fromJSON
    genList
    head
    isString
    length
    listToAttrs
    match
    split
    sort
    ;

  down = from: to: genList (at: from - at) (if from < to then 0 else from - to + 1);
  text = builtins.toString;

  legacy = {
    "17" = "manylinux2014";
    "12" = "manylinux2010";
    "5" = "manylinux1";
  };

  linux =
    { arch, libc, ... }:
    let
      minor = libc.minor;
      oldest = if arch == "x86_64" || arch == "i686" then 5 else 17;
      manylinux = concatMap (
        at:
        [ "manylinux_2_${text at}_${arch}" ]
        ++ (if legacy ? ${text at} then [ "${legacy.${text at}}_${arch}" ] else [ ])
      ) (down minor oldest);
      musllinux = map (at: "musllinux_1_${text at}_${arch}") (down minor 0);
    in
    [ "linux_${arch}" ] ++ (if libc.name == "musl" then musllinux else manylinux);

  darwin =
    { arch, macos, ... }:
    let
      formats =
        if arch == "x86_64" then
          [ "x86_64" "intel" "fat64" "fat3" "universal2" "universal" ]
        else
          [ arch "universal2" ];
      older = if arch == "x86_64" then formats else [ "universal2" ];
    in
    concatMap (major: map (format: "macosx_${text major}_0_${format}") formats) (down macos 11)
    ++ concatMap (minor: map (format: "macosx_10_${text minor}_${format}") older) (down 16 4);

  # A CPython 3 with the usual abi.
  supported =
    target:
    let
      minor = target.pythonMinor;
      own = "cp3${text minor}";
      platforms = if target.os == "darwin" then darwin target else linux target;
      on = prefix: map (platform: "${prefix}-${platform}") platforms;
      generic = [ "py3${text minor}" "py3" ] ++ map (at: "py3${text at}") (down (minor - 1) 0);
    in
    on "${own}-${own}"
    ++ on "${own}-abi3"
    ++ on "${own}-none"
    ++ concatMap (at: on "cp3${text at}-abi3") (down (minor - 1) 2)
    ++ concatMap (version: on "${version}-none") generic
    ++ [ "${own}-none-any" ]
    ++ map (version: "${version}-none-any") generic;

  # The parts of a wheel's file name, or null where it is none.
  parseName =
    name:
    let
      found = match "([^-]+)-([^-]+)(-([0-9]+)([^-]*))?-([^-]+)-([^-]+)-([^-]+)\\.whl" name;
      at = elemAt found;
      alternatives = place: filter isString (split "\\." (at place));
    in
    if found == null then
      null
    else
      {
        build =
          if at 3 == null then
            [ ]
          else
            [
              (fromJSON (elemAt (match "0*([0-9]+)" (at 3)) 0))
              (at 4)
            ];
        tags = concatMap (
          python: concatMap (abi: map (platform: "${python}-${abi}-${platform}") (alternatives 7)) (alternatives 6)
        ) (alternatives 5);
      };
in
{
  inherit supported parseName;

  # A function from a list of { filename; … } to the best of them, or null where none runs on the target.
  chooser =
    target:
    let
      tags = supported target;
      ranks = listToAttrs (
        genList (at: {
          name = elemAt tags at;
          value = at;
        }) (length tags)
      );
      rank =
        wheel:
        let
          name = parseName wheel.filename;
          fit = if name == null then [ ] else filter (tag: ranks ? ${tag}) name.tags;
        in
        if fit == [ ] then
          null
        else
          {
            inherit wheel;
            best = foldl' (least: tag: if ranks.${tag} < least then ranks.${tag} else least) ranks.${head fit} fit;
            inherit (name) build;
          };
      # Of equal tags the newest build counts.
      isBetter = a: b: a.best < b.best || (a.best == b.best && b.build < a.build);
    in
    wheels:
    let
      fit = sort isBetter (filter (found: found != null) (map rank wheels));
    in
    if fit == [ ] then null else (head fit).wheel;
}
