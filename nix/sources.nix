# The parts of this tree that are built, each as a source of its own.
#
# Owns: which files count. Does not own: building. What is not listed here moves no path of the store: not a test, not a
# document, and for PM nothing of the app.
let
  inherit (builtins) any baseNameOf match path substring stringLength toString;

  # The named files and directories below `root`, whole.
  take =
    name: root: wanted:
    path {
      inherit name;
      path = root;
      filter =
        file: type:
        let
          relative = substring (stringLength (toString root) + 1) (stringLength file) file;
          base = baseNameOf file;
          begins = prefix: text: substring 0 (stringLength prefix) text == prefix;
        in
        base != "__pycache__"
        && match ".*\\.pyc" base == null
        && any (
          entry:
          relative == entry
          || begins "${entry}/" relative
          || (type == "directory" && begins "${relative}/" entry)
        ) wanted;
    };
in
{
  pm = take "perdure-pm-source" ../pm [
    "pyproject.toml"
    "perdure_pm"
  ];
  merge = path {
    name = "merge_yaml.py";
    path = ../pm/merge_yaml.py;
  };
  compat = take "perdure-compat-source" ../compat [
    "pyproject.toml"
    "perdure_compat"
  ];
  app = take "perdure-source" ../. [
    "pyproject.toml"
    "README.md"
    "app/perdure"
  ];
  facts = take "perdure-facts-source" ../plugins/facts [
    "pyproject.toml"
    "perdure_facts"
  ];
}
