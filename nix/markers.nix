# Environment markers, whole: what PEP 508 and its successors let a dependency depend on.
#
# Owns: reading a marker and its truth in an environment. Does not own: which environment that is (target), versions
# (versions). Pure. A marker that cannot be read stops the evaluation with its text: a dependency that is left out by
# mistake shows when it is too late.
let
  versions = import ./versions.nix;
  inherit (builtins)
    concatMap
    concatStringsSep
    elem
    elemAt
    filter
    isList
    isString
    length
    match
    replaceStrings
    split
    ;

  token = "(\\(|\\)|'[^']*'|\"[^\"]*\"|===|<=|>=|==|!=|~=|<|>|[a-zA-Z_.]+)";

  # What setuptools once wrote, and packaging still reads.
  aliases = {
    "os.name" = "os_name";
    "sys.platform" = "sys_platform";
    "platform.version" = "platform_version";
    "platform.machine" = "platform_machine";
    "platform.python_implementation" = "platform_python_implementation";
    "python_implementation" = "platform_python_implementation";
  };

  variables = [
    "extra"
    "implementation_name"
    "implementation_version"
    "os_name"
    "platform_machine"
    "platform_python_implementation"
    "platform_release"
    "platform_system"
    "platform_version"
    "python_full_version"
    "python_version"
    "sys_platform"
  ];

  # Only these hold versions; `platform_machine >= 'x'` compares texts.
  holdVersions = [
    "implementation_version"
    "platform_release"
    "python_full_version"
    "python_version"
  ];

  comparisons = {
    "==" = a: b: a == b;
    "!=" = a: b: a != b;
    # Texts have no order; what is asked for one is as packaging answers it.
    "<" = _a: _b: false;
    ">" = _a: _b: false;
    "<=" = a: b: a == b;
    ">=" = a: b: a == b;
  };

  escaped = replaceStrings [ "\\" "^" "$" "." "|" "?" "*" "+" "(" ")" "[" "]" "{" "}" ] (
    map (letter: "\\" + letter) [ "\\" "^" "$" "." "|" "?" "*" "+" "(" ")" "[" "]" "{" "}" ]
  );
  isIn = needle: text: needle == "" || length (split (escaped needle) text) > 1;

  normalise = name: concatStringsSep "-" (filter isString (split "[-_.]+" (versions.toLower name)));

  tokensOf =
    marker:
    concatMap (
      part:
      if isList part then
        [ (elemAt part 0) ]
      else if match "[ \t\n]*" part != null then
        [ ]
      else
        throw "the marker ${marker} cannot be read at: ${part}"
    ) (split token marker);

  evaluate =
    environment: marker:
    let
      tokens = tokensOf marker;
      count = length tokens;
      peek = at: if at < count then elemAt tokens at else "";
      fault = at: throw "the marker ${marker} cannot be read at: ${if at < count then peek at else "its end"}";

      # Each of these takes the place of its first token and returns { value; at; }, `at` being the place after it.
      disjunction =
        at:
        let
          more =
            found:
            if peek found.at == "or" then
              let
                next = conjunction (found.at + 1);
              in
              more {
                value = found.value || next.value;
                inherit (next) at;
              }
            else
              found;
        in
        more (conjunction at);

      conjunction =
        at:
        let
          more =
            found:
            if peek found.at == "and" then
              let
                next = atom (found.at + 1);
              in
              more {
                value = found.value && next.value;
                inherit (next) at;
              }
            else
              found;
        in
        more (atom at);

      atom =
        at:
        if peek at == "(" then
          let
            inner = disjunction (at + 1);
          in
          if peek inner.at == ")" then
            {
              inherit (inner) value;
              at = inner.at + 1;
            }
          else
            fault inner.at
        else
          comparison at;

      comparison =
        at:
        let
          left = operand at;
          isNegated = peek (at + 1) == "not" && peek (at + 2) == "in";
          operator = if isNegated then "not in" else peek (at + 1);
          next = at + (if isNegated then 3 else 2);
          right = operand next;
        in
        {
          value = compare (at + 1) left operator right;
          at = next + 1;
        };

      operand =
        at:
        let
          text = peek at;
          quoted = match "'(.*)'|\"(.*)\"" text;
          name = aliases.${text} or text;
        in
        if quoted != null then
          {
            name = null;
            value = if elemAt quoted 0 != null then elemAt quoted 0 else elemAt quoted 1;
          }
        else if elem name variables then
          {
            inherit name;
            value = environment.${name} or (throw "the marker ${marker} asks for ${name}, which is not known here");
          }
        else
          fault at;

      compare =
        at: left: operator: right:
        let
          # A variable may stand on either side: its name says how to compare.
          name = if left.name != null then left.name else right.name;
          a = if name == "extra" then normalise left.value else left.value;
          b = if name == "extra" then normalise right.value else right.value;
          asVersions = if elem name holdVersions then versions.satisfies a operator b else null;
        in
        if name == null then
          fault at
        else if operator == "in" then
          isIn a b
        else if operator == "not in" then
          !(isIn a b)
        else if asVersions != null then
          asVersions
        else if comparisons ? ${operator} then
          comparisons.${operator} a b
        else
          throw "the marker ${marker} compares ${a} and ${b} by ${operator}, which they cannot be";

      whole = disjunction 0;
    in
    # The value is looked at only once all of the marker has been read.
    if whole.at == count then whole.value else fault whole.at;
in
{
  inherit evaluate normalise;
}
