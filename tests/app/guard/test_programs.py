"""Programs: what each does to its operands, one row a way of calling it.

An effect is written as in test_reading.
"""

from __future__ import annotations

import pytest

from perdure.domain.effect import Act
from perdure.guard import programs, verbs, windows_shells
from tests.app.guard.test_reading import HOME, effects, read

UV = f"{HOME}/.local/share/uv"

FILES = [
    ("rmdir a", ["delete a"]),
    ("unlink a", ["delete a"]),
    ("rm .", ["delete . ~"]),
    ("rm -r ..", ["delete .. r~"]),
    ("shred -u a", ["delete a", "empty a"]),
    ("shred a", ["empty a"]),
    ("mv a b", ["move a", "overwrite b", "overwrite b/a"]),
    ("mv a /b", ["move a", "overwrite /b/a"]),
    ("mv -t /b a c", ["move a", "move c", "overwrite /b/a", "overwrite /b/c"]),
    ("mv -S .bak a c/", ["move a", "overwrite c/", "overwrite c/a"]),
    ("cp a b", ["overwrite b", "overwrite b/a"]),
    ("cp -r a/x /b", ["overwrite /b/x r"]),
    ("cp --target-directory=/b a", ["overwrite /b/a"]),
    ("install -m 755 a b", ["overwrite b", "overwrite b/a"]),
    ("install -d a", ["permit a"]),
    ("ln -s a b", ["make b"]),
    ("ln -sf a b", ["overwrite b", "overwrite b/a"]),
    ("truncate -s 0 a", ["empty a"]),
    ("tee a -a b", ["change a", "change b"]),
    ("tee a", ["overwrite a"]),
    ("sed -i s/a/b/ c", ["overwrite c"]),
    ("sed -e s/a/b/ -i.bak c", ["overwrite c"]),
    ("sed -n 1p c", []),
    ("perl -pi -e s/a/b/ c", ["change c"]),
    ("chmod 755 a", ["permit a"]),
    ("chmod -x a", ["permit a", "close a"]),
    ("chmod 600 a", ["permit a", "close a"]),
    ("chmod u=rw,go=r a", ["permit a", "close a"]),
    ("chmod go-x a", ["permit a"]),
    ("chmod -R u+w a b", ["permit a r", "permit b r"]),
    ("chown --reference=x a", ["permit a"]),
    ("dd if=a of=b bs=1", ["overwrite b"]),
    ("sort -o a b", ["overwrite a"]),
    ("curl -o a https://example.org", ["overwrite a"]),
    ("wget -O a https://example.org", ["overwrite a"]),
    ("wget -P a https://example.org", ["overwrite a r~"]),
    ("curl -O --output-dir a https://example.org", ["overwrite a r~"]),
    ("scp -P 22 host:a b", ["overwrite b", "overwrite b/host:a"]),
    ("patch -d a -p1", ["overwrite a r~"]),
    ("cpio -D a -id", ["overwrite a r~"]),
    ("go build -o a ./...", ["overwrite a"]),
    ("gzip a", ["delete a"]),
    ("gzip -k a", []),
    ("tar -cf a.tar b", ["overwrite a.tar"]),
    ("tar czf a.tar --remove-files b", ["overwrite a.tar", "delete b r"]),
    ("tar --remove-files -C /b -cf - a", ["delete a r @/b"]),
    ("tar xf a.tar -C /b", ["overwrite . ~ @/b"]),
    ("rsync -a --delete a/ b", ["delete b r", "overwrite b", "overwrite b/a"]),
    ("rsync -a --delete a b", ["delete b/a r", "overwrite b", "overwrite b/a"]),
    ("rsync -an --delete a/ b", []),
    ("rsync -a a host:b", []),
    ("rsync --remove-source-files a host:b", ["delete a r"]),
    ("trash a", ["delete a r"]),
    ("gio trash a", ["delete a r"]),
    ("umount a", ["mount a"]),
    ("rm -rf /proc/self/cwd/a /proc/1/root//b", ["delete /w/a r", "delete //b r"]),
    ("rm ''", []),
]

SEARCHES = [
    ("find a -delete", ["delete a r"]),
    ("find a -mindepth 1 -delete", ["delete a r"]),
    ("find a -name '*.b' -delete", ["delete a [<*>.b] r"]),
    ("find a -name b -o -name c -delete", ["delete a [c] r"]),
    ("find a \\( -name b -o -name c \\) -delete", ["delete a [b c] r"]),
    ("find a \\( -name b -o -type d \\) -delete", ["delete a r"]),
    ("find a ! -name b -delete", ["delete a r"]),
    ("find a -path './b/*' -delete", ["delete ./b/<>"]),
    ("find a -exec rm {} +", ["delete a r"]),
    ("find a -name b -exec sh -c 'rm \"$1\"' _ {} \\;", ["delete a [b] r"]),
    ("find a -name b | xargs rm", ["delete a [b] r"]),
    ("find a -name b -print0 | xargs -0 -n 1 rm", ["delete a [b] r"]),
    ('find a -name b | while read -r c; do rm "$c"; done', ["delete a [b] r?"]),
    ("for c in $(find a -name b); do rm $c; done", ["delete a [b] r?"]),
    ("find a -name b", []),
    ("find a -fprint b", ["overwrite b"]),
    ("ls | xargs rm", ["delete <*>"]),
    ("ls -A | xargs rm", ["delete <*>", "delete .<*>"]),
]

ENVIRONMENTS = [
    ("uv venv --clear a", ["delete a r"]),
    ("uv venv a", ["overwrite a ~"]),
    ("uv venv", ["overwrite .venv ~"]),
    ("uv sync", ["delete /w/.venv r~", "delete /.venv r~"]),
    ("uv --directory /a sync", ["delete /a/.venv r~ @/a", "delete /.venv r~ @/a"]),
    ("uv run --no-sync rm a", ["delete a"]),
    ("uv python uninstall --all", [f"delete {UV}/python r"]),
    ("uv tool uninstall a", [f"delete {UV}/tools/a r"]),
    ("uv tool uninstall --all", [f"delete {UV}/tools r"]),
    ("uv cache clean", []),
    ("uv pip install --target a b", ["change a r"]),
    ("python3 -m venv --clear a", ["delete a r"]),
    ("python3 -m venv a", ["overwrite a r"]),
    ("a/bin/pip uninstall b", ["change a/bin/pip r", "change a r"]),
    ("a/bin/python -m pip install b", ["change a/bin/python r", "change a r"]),
    ("pip install -t a b", ["change a r"]),
    ("pip list", []),
    ("conda env remove -p a", ["delete a r"]),
    ("pyenv uninstall -f 3.12.7", [f"delete {HOME}/.pyenv/versions/3.12.7 r"]),
    ("git clean -fdx", ["delete . r"]),
    ("git clean -fd", ["delete . r~"]),
    ("git clean -nfdx", []),
    ("git -C /a clean -fdx b", ["delete b r @/a"]),
    ("git stash --all", ["delete . r"]),
    ("git stash pop", []),
    ("git rm -r a", ["delete a r~"]),
    ("git worktree remove a", ["delete a r"]),
    ("docker run -v /a:/c x rm -rf /c/d /e", ["delete /a/d r"]),
    ("docker run --entrypoint '' -v /a:/c -- x rm -rf /c/d", ["delete /a/d r"]),
    ("docker run --entrypoint rm --entrypoint= -v /a:/c x rm -rf /c/d", ["delete /a/d r"]),
    ('podman run --entrypoint \'["rm", "-r"]\' -v /a:/c x /c/d', ["delete /a/d r"]),
    ("docker run --entrypoint ls --entrypoint rm -v /a:/c x -rf /c/d", ["delete /a/d r"]),
    ("docker run -v $PWD:/c -w /c x sh -c 'rm d'", ["delete /w/d"]),
    ("docker exec x rm a", []),
    ("ssh localhost rm a", [f"delete a @{HOME}"]),
    ("ssh elsewhere rm a", []),
    ("chroot /m rm a", ["delete a ~"]),
]


@pytest.mark.parametrize(("line", "expected"), FILES + SEARCHES + ENVIRONMENTS)
def test_a_program_does_to_its_operands_what_it_is_known_for(line: str, expected: list[str]) -> None:
    assert effects(line) == expected


@pytest.mark.parametrize(
    ("request_", "names", "others"),
    [
        ("3.12", ["cpython-3.12.7-linux-x86_64-gnu", "pypy-3.12.1-linux"], ["cpython-3.11.2-linux"]),
        ("3.12.7", ["cpython-3.12.7-linux-x86_64-gnu"], ["cpython-3.12.70-linux", "cpython-3.12.8-linux"]),
        ("312", ["cpython-3.12.7-linux-x86_64-gnu"], ["cpython-3.1.2-linux"]),
        ("cpython@3.12", ["cpython-3.12.7-linux-x86_64-gnu"], ["pypy-3.12.1-linux"]),
        ("pypy", ["pypy-3.10.1-linux"], ["cpython-3.12.7-linux"]),
        ("cpython-3.12.7-linux-x86_64-gnu", ["cpython-3.12.7-linux-x86_64-gnu"], ["cpython-3.11.2-linux"]),
    ],
)
def test_a_request_for_an_interpreter_means_the_managed_ones_that_fit(
    request_: str, names: list[str], others: list[str]
) -> None:
    from perdure.guard.patterns import accepts, split

    (effect,) = [made for made in read(f"uv python uninstall {request_}").effects if made.act is Act.DELETE]
    place = effect.directories[0].spellings[0]
    spelled = [split(spelling, place).components[-1] for spelling in effect.operand.spellings]
    for name in names:
        assert any(accepts(component, name, case_sensitive=True) for component in spelled), name
    for name in others:
        assert not any(accepts(component, name, case_sensitive=True) for component in spelled), name


def test_every_program_is_a_run_with_its_arguments() -> None:
    runs = [effect for effect in read("sudo -u x nice rm -r a").effects if effect.act is Act.RUN]
    assert [(run.by, [argument.known for argument in run.arguments]) for run in runs] == [
        ("sudo", ["-u", "x", "nice", "rm", "-r", "a"]),
        ("nice", ["rm", "-r", "a"]),
        ("rm", ["-r", "a"]),
    ]


def test_look_alike_characters_are_asked_about_as_what_they_look_like() -> None:
    assert effects("rm \u2010rf a") == ["delete \u2010rf", "delete a", "delete a r~"]
    assert effects("\uff52\uff4d -rf a") == ["delete a r~"]


def test_every_entry_of_the_table_can_be_used() -> None:
    table = verbs.table()
    assert len(table) > 80
    for name, verb in table.items():
        words = "a b"
        read(f"{name} {words}")
        for subcommand in verb.subcommands:
            read(f"{name} {subcommand} {words}")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import shutil; shutil.rmtree('a')", ["delete a r"]),
        ("import shutil as s; s.rmtree(path='a')", ["delete a r"]),
        ("from shutil import rmtree; rmtree('a', ignore_errors=True)", ["delete a r"]),
        ("import pathlib; pathlib.Path('a', 'b').unlink()", ["delete a/b"]),
        ("from pathlib import Path; p = Path('a') / 'b'; p.rmdir()", ["delete a/b"]),
        ("from pathlib import Path; (Path.home() / 'a').unlink()", [f"delete {HOME}/a"]),
        ("import os; os.remove(os.path.join('a', 'b'))", ["delete a/b"]),
        ("import os; os.rename('a', 'b')", ["move a", "overwrite b"]),
        ("import os; os.chdir('/c'); os.unlink('a')", ["delete a @/c"]),
        ("import os\nfor n in ['a', 'b']:\n os.unlink(n)", ["delete a|b ?"]),
        ("import os, glob\nfor n in glob.glob('*.x'):\n os.unlink(n)", ["delete <*>.x ?"]),
        ("open('a', 'w').write('')", ["overwrite a"]),
        ("open('a').read()", []),
        ("open('a', mode='a')", ["change a"]),
        ("from pathlib import Path; Path('a').write_text('')", ["overwrite a"]),
        ("import subprocess; subprocess.run('rm a', shell=True)", ["delete a"]),
        ("import subprocess; subprocess.run(['rm', 'a'], cwd='/c')", ["delete a @/c"]),
        ("__import__('os').remove('a')", ["delete a"]),
        ("import os; getattr(os, 'remove')('a')", ["delete a"]),
        ("exec('import os; os.remove(\"a\")')", ["delete a"]),
        ("x = 'a'.replace('a', 'b')", []),
        ("print('os.remove(a)')", []),
        ("import os; os.remove(f'{x}/a')", ["delete <>/a"]),
        ("import shutil, sys; shutil.rmtree(sys.argv[1])", ["delete <> r"]),
        ("import shutil; list(map(shutil.rmtree, ['a']))", ["delete <> r"]),
        ("import asyncio; asyncio.run(asyncio.create_subprocess_shell('rm a'))", ["delete a"]),
        ("import asyncio; asyncio.run(asyncio.create_subprocess_exec('rm', 'a'))", ["delete a"]),
        ("this is no python", []),
    ],
)
def test_literal_python_is_read(code: str, expected: list[str]) -> None:
    assert effects(f"python3 - <<'E'\n{code}\nE") == expected


def test_every_shell_of_windows_is_opened() -> None:
    assert set(programs.WINDOWS_SHELLS) == set(windows_shells.OPENERS)
