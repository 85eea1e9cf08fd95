# Versions and specifiers as PEP 440 has them, for markers.
#
# Owns: parsing a version into something that Nix's own `<` orders, and whether a specifier holds for a version.
# Does not own: markers. Pure: imports nothing. What is no version is null, never a guess.
let
  inherit (builtins)
    elemAt
    filter
    foldl'
    fromJSON
    genList
    isList
    isString
    length
    match
    split
    stringLength
    substring
    ;

  upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  lower = "abcdefghijklmnopqrstuvwxyz";
  letters = genList (at: substring at 1 upper) 26;
  toLower = builtins.replaceStrings letters (genList (at: substring at 1 lower) 26);

  # "007" is 7, and "" what an omitted number means: fromJSON takes neither.
  number =
    text:
    let
      digits = match "0*([0-9]*)" text;
    in
    if digits == null || elemAt digits 0 == "" then 0 else fromJSON (elemAt digits 0);

  parts = separator: text: filter isString (split separator text);

  last = list: elemAt list (length list - 1);
  withoutTrailingZeros =
    list:
    if list == [ ] || last list != 0 then
      list
    else
      withoutTrailingZeros (genList (elemAt list) (length list - 1));

  pattern =
    "[ \t]*v?(([0-9]+)!)?([0-9]+(\\.[0-9]+)*)" # epoch, release
    + "([-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?([0-9]*))?" # pre-release
    + "(-([0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?" # post-release
    + "([-_.]?dev[-_.]?([0-9]*))?" # development release
    + "(\\+([a-z0-9]+([-_.][a-z0-9]+)*))?[ \t]*"; # local

  stages = {
    a = 0;
    alpha = 0;
    b = 1;
    beta = 1;
    c = 2;
    rc = 2;
    pre = 2;
    preview = 2;
  };

  localPart =
    text:
    if match "[0-9]+" text != null then
      [
        1
        (number text)
      ]
    else
      [
        0
        text
      ];

  # The version as { key; public; base; ... }; `key` and `public` order by `<` and are equal for equal versions.
  parse =
    text:
    let
      found = match pattern (toLower text);
      at = elemAt found;
      release = map number (parts "\\." (at 2));
      epoch = if at 1 == null then 0 else number (at 1);
      isPre = at 4 != null;
      isPost = at 7 != null;
      isDev = at 11 != null;
      pre =
        if isPre then
          [
            stages.${at 5}
            (number (at 6))
          ]
        else if !isPost && isDev then
          [ (-1) 0 ]
        else
          [ 3 0 ];
      post =
        if !isPost then
          -1
        else if at 8 != null then
          number (at 8)
        else
          number (at 10);
      dev =
        if isDev then
          [
            0
            (number (at 12))
          ]
        else
          [ 1 0 ];
      trimmed = withoutTrailingZeros release;
      start = [ epoch trimmed ];
      untilPre = start ++ [ pre ];
      untilPost = untilPre ++ [ post ];
      public = untilPost ++ [ dev ];
      local = if at 13 == null then [ ] else map localPart (parts "[-_.]" (at 14));
    in
    if found == null then
      null
    else
      {
        inherit
          epoch
          release
          public
          start
          untilPre
          untilPost
          isDev
          isPost
          post
          local
          ;
        dev = elemAt dev 1;
        key = public ++ [ local ];
        isPre = isPre || isDev;
      };

  # Whether the release of `version` begins with `release`, zeros filled in.
  hasPrefix =
    release: version:
    let
      padded = at: if at < length version then elemAt version at else 0;
    in
    genList padded (length release) == release;

  sameStart = wanted: version: version.epoch == wanted.epoch && hasPrefix wanted.release version.release;

  # `==` with a wildcard: the text before `.*`, which must be a release alone, or null where there is none.
  wildcard =
    text:
    let
      found = match "[ \t]*(.*)\\.\\*[ \t]*" text;
      version = if found == null then null else parse (elemAt found 0);
    in
    if version == null || version.isPre || version.isPost || version.local != [ ] then null else version;

  equals =
    version: wanted: if wanted.local == [ ] then version.public == wanted.public else version.key == wanted.key;

  operators = {
    "==" = equals;
    "!=" = version: wanted: !(equals version wanted);
    "<=" = version: wanted: !(wanted.public < version.public);
    ">=" = version: wanted: !(version.public < wanted.public);
    # Below a version are not its own pre-releases, unless it is one itself: `<3.14` has no 3.14rc1.
    "<" =
      version: wanted:
      version.key < (
        if wanted.isPre then
          wanted.key
        else
          # Its earliest development release.
          (if wanted.isPost then wanted.untilPost else wanted.start ++ [ [ (-1) 0 ] (-1) ])
          ++ [
            [ 0 0 ]
            [ ]
          ]
      );
    # Above a version are neither its own local versions nor its own post-releases.
    ">" =
      version: wanted:
      if wanted.isDev then
        !(
          version.key < wanted.untilPost
          ++ [
            [
              0
              (wanted.dev + 1)
            ]
            [ ]
          ]
        )
      else if wanted.isPost then
        !(
          version.key < wanted.untilPre
          ++ [
            (wanted.post + 1)
            [ 0 0 ]
            [ ]
          ]
        )
      else
        wanted.untilPre < version.untilPre;
    "~=" =
      version: wanted:
      !(version.public < wanted.public)
      && sameStart (wanted // { release = genList (elemAt wanted.release) (length wanted.release - 1); }) version;
  };

  # Whether `version operator wanted` holds, all texts; null where `operator wanted` is no specifier.
  satisfies =
    version: operator: wanted:
    let
      left = parse version;
      right = parse wanted;
      prefix = wildcard wanted;
      takesWildcard = operator == "==" || operator == "!=";
      # Only equality may name a local version, and a compatible release needs two numbers.
      isFit =
        if operator == "~=" then
          length right.release > 1 && right.local == [ ]
        else
          takesWildcard || right.local == [ ];
    in
    if operator == "===" then
      toLower version == toLower wanted
    else if !(operators ? ${operator}) then
      null
    else if prefix != null && takesWildcard then
      left != null && (if operator == "==" then sameStart prefix left else !(sameStart prefix left))
    else if right == null || !isFit then
      null
    else if left == null then
      false
    else
      operators.${operator} left right;
in
{
  inherit parse satisfies toLower;
  # `a` sorts before `b`: both are versions.
  isOlder = a: b: (parse a).key < (parse b).key;
  # Whether every one of the specifiers in a list like ">=3.11,<4" holds.
  satisfiesAll =
    version: specifiers:
    foldl' (
      holds: specifier:
      let
        found = match "[ \t]*(===|~=|==|!=|<=|>=|<|>)[ \t]*([^ \t]+)[ \t]*" specifier;
      in
      if found == null then
        throw "${specifier} is no version specifier"
      else
        holds && satisfies version (elemAt found 0) (elemAt found 1) == true
    ) true (filter (text: stringLength text > 0) (parts "," specifiers));
}
