# Shorthands. Every recipe is one command that works without `just` too; CI calls those commands (docs/adr/0008).

# List the recipes.
default:
    @just --list

# Bring the app up in the home: PM's runtime, generation 1, launchers.
up *ARGS:
    python3 pm/bootstrap.py up {{ARGS}}

# Run the whole test suite in environments it builds itself.
test *ARGS:
    python3 pm/bootstrap.py test {{ARGS}}

# Run the tests marked slow too; they print their figures at the end.
slow *ARGS:
    python3 pm/bootstrap.py test --slow {{ARGS}}

# Run formatting, lint, types, import contracts and lock checks.
lint *ARGS:
    python3 pm/bootstrap.py lint {{ARGS}}

# Write the generated pages of docs/reference again.
docs:
    python3 pm/bootstrap.py test --only pm -- -k reference_pages --regenerate-docs
    python3 pm/bootstrap.py test --only architecture -- -k reference_pages --regenerate-docs

# What CI runs.
ci:
    .ci/run
