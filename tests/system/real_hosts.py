"""Applications that nobody here wrote, each with plugins that people use: what is tried with every one of them.

Owns: one row per host: what it is had by, its plugins, how to see that they are there and that they work. Does not own:
trying (test_hosts). A row names no version more exactly than the host's own users would: the page that comes of it
says which ones were met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Try:
    """A command of the host and what must be in its output."""

    words: tuple[str, ...]
    """The launcher's name and its arguments; ``{folder}`` is the working directory."""
    says: tuple[str, ...]
    """Texts that standard output, standard error or the file `reads` must hold."""
    reads: str | None = None
    """A file, relative to the working directory, that the command writes."""
    accepted: tuple[int, ...] = (0,)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a server and what must be in its answer."""

    page: str = "/"
    posts: str | None = None
    """The body of a POST; a GET where there is none."""
    says: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RealHost:
    """One application."""

    requirement: str
    plugins: tuple[str, ...]
    visible: Try
    works: Try
    about: str
    """Why it is in the table."""
    commands: tuple[str, ...] = ()
    """What gets a launcher; empty: all."""
    beside: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    """What has no wheel and is allowed to be built."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the launchers set; ``{folder}`` is the working directory."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What lies in the working directory; ``{home}`` is the home, ``{port}`` the server's port."""
    serves: tuple[str, ...] = ()
    """The command line of its server, with ``{port}``; empty where it is none."""
    questions: tuple[Question, ...] = (Question(),)
    """What is asked of the server."""


HOSTS: dict[str, RealHost] = {
    "datasette": RealHost(
        requirement="datasette==0.65.*",
        plugins=("datasette-cluster-map", "datasette-vega"),
        commands=("datasette",),
        about="pluggy entry points, data files, a server",
        files={"points.csv": "name,latitude,longitude\nhere,47.1,8.2\n"},
        visible=Try(words=("datasette", "plugins"), says=("datasette-cluster-map", "datasette-vega")),
        works=Try(
            words=("datasette", "--memory", "--get", "/_memory?sql=select+1+as+latitude,+2+as+longitude"),
            says=("datasette-cluster-map.js", "datasette_vega"),
        ),
        serves=("datasette", "serve", "--memory", "--port", "{port}"),
        questions=(
            Question(page="/-/plugins.json", says=("datasette-cluster-map", "datasette-vega")),
            Question(page="/_memory?sql=select+1+as+latitude,+2+as+longitude", says=("datasette-cluster-map.js",)),
        ),
    ),
    "llm": RealHost(
        requirement="llm",
        plugins=("llm-echo", "llm-cmd"),
        about="pluggy entry points, compiled extensions (pydantic-core), models and commands from plugins",
        variables={"LLM_USER_PATH": "{folder}/llm"},
        visible=Try(words=("llm", "plugins"), says=("llm-echo", "llm-cmd")),
        works=Try(words=("llm", "-m", "echo", "hello there"), says=("hello there",)),
    ),
    "sqlite-utils": RealHost(
        requirement="sqlite-utils",
        plugins=("sqlite-utils-shell", "sqlite-utils-fast-fks"),
        about="pluggy entry points, commands from plugins",
        visible=Try(words=("sqlite-utils", "plugins"), says=("sqlite-utils-shell", "sqlite-utils-fast-fks")),
        works=Try(words=("sqlite-utils", "shell", "--help"), says=("interactive SQL shell",)),
    ),
    "mkdocs": RealHost(
        requirement="mkdocs==1.6.*",
        plugins=("mkdocs-material", "mkdocs-macros-plugin"),
        about="themes as data files, plugins named in a configuration",
        files={
            "mkdocs.yml": "site_name: trial\ntheme: material\nplugins: [macros]\nextra: {answer: forty-two}\n",
            "docs/index.md": "# Trial\n\nThe answer is {{ answer }}.\n",
        },
        visible=Try(words=("mkdocs", "build", "--help"), says=("material",)),
        works=Try(
            words=("mkdocs", "build"),
            says=("The answer is forty-two", "data-md-component", "assets/javascripts/bundle."),
            reads="site/index.html",
        ),
        serves=("mkdocs", "serve", "--dev-addr", "127.0.0.1:{port}"),
        questions=(Question(says=("The answer is forty-two", "data-md-component")),),
    ),
    "sphinx": RealHost(
        requirement="sphinx",
        plugins=("furo", "sphinx-copybutton", "myst-parser"),
        about="extensions that are no entry points, namespace packages (sphinxcontrib)",
        files={
            "conf.py": "project = 'trial'\nextensions = ['sphinx_copybutton', 'myst_parser']\nhtml_theme = 'furo'\n",
            "index.md": "# Trial\n\n```\ncode\n```\n",
        },
        visible=Try(words=("sphinx-build", "-M", "html", ".", "seen"), says=("build succeeded",)),
        works=Try(
            words=("sphinx-build", "-b", "html", ".", "out"), says=("furo.js", "copybutton.js"), reads="out/index.html"
        ),
    ),
    "pytest": RealHost(
        requirement="pytest==9.*",
        plugins=("pytest-xdist", "pytest-mock"),
        about="pluggy entry points, processes of its own in the same environment",
        files={"test_trial.py": "def test_mock(mocker):\n    assert mocker.Mock()() is not None\n"},
        visible=Try(words=("pytest", "--trace-config", "-p", "no:cacheprovider"), says=("xdist-", "mock-")),
        works=Try(words=("pytest", "-n", "2", "-p", "no:cacheprovider"), says=("1 passed", "2 workers")),
    ),
    "flake8": RealHost(
        requirement="flake8==7.*",
        plugins=("flake8-bugbear", "flake8-comprehensions"),
        about="entry points that the host reads itself, processes of its own",
        files={"bad.py": "def f(x=[]):\n    return list(y for y in x)\n"},
        visible=Try(words=("flake8", "--version"), says=("bugbear", "comprehensions")),
        works=Try(words=("flake8", "bad.py"), says=("B006", "C400"), accepted=(1,)),
    ),
    "pylint": RealHost(
        requirement="pylint",
        plugins=("pylint-pydantic", "pylint-per-file-ignores"),
        about="plugins named in options, no entry points",
        # Without the first plugin `check` has no self, without the second one `os` is unused: each costs points.
        files={
            "bad.py": '"""Docs."""\nimport os\n',
            "model.py": (
                '"""Docs."""\nfrom pydantic import BaseModel, field_validator\n\n\n'
                'class Model(BaseModel):\n    """Docs."""\n\n    name: str\n\n'
                '    @field_validator("name")\n    def check(cls, value):\n        """Docs."""\n        return value\n'
            ),
        },
        visible=Try(
            words=("pylint", "--load-plugins=pylint_pydantic,pylint_per_file_ignores", "--long-help"),
            says=("--per-file-ignores",),
        ),
        works=Try(
            words=(
                "pylint",
                "--load-plugins=pylint_pydantic,pylint_per_file_ignores",
                "--per-file-ignores=bad.py:unused-import",
                "bad.py",
                "model.py",
            ),
            says=("10.00/10",),
        ),
    ),
    "jupyterlab": RealHost(
        requirement="jupyterlab==4.*",
        plugins=("jupytext", "jupyterlab-git"),
        about="extensions as data files under share/, compiled extensions, a server",
        commands=("jupyter-lab", "jupyter-labextension"),
        variables={"JUPYTER_CONFIG_DIR": "{folder}/config", "JUPYTER_RUNTIME_DIR": "{folder}/run"},
        files={"note.md": "# Note\n\n```python\n6 * 7\n```\n"},
        visible=Try(words=("jupyter-labextension", "list"), says=("jupyterlab-jupytext", "@jupyterlab/git")),
        works=Try(words=("jupyter-labextension", "list"), says=("enabled", "OK")),
        serves=(
            "jupyter-lab",
            "--no-browser",
            "--allow-root",
            "--port={port}",
            "--IdentityProvider.token=",
            "--ServerApp.root_dir={folder}",
        ),
        questions=(
            Question(page="/lab", says=("@jupyterlab/git", "jupyterlab-jupytext")),
            Question(page="/api/contents/note.md?type=notebook", says=('"type": "notebook"', '"source": "6 * 7"')),
            Question(page="/git/settings", says=("serverVersion",)),
        ),
    ),
    "xonsh": RealHost(
        requirement="xonsh[full]",
        plugins=("xontrib-vox", "xontrib-abbrevs"),
        about="a namespace package (xontrib), a shell",
        variables={"XONSH_DATA_DIR": "{folder}/data"},
        visible=Try(words=("xonsh", "--no-rc", "-c", "xontrib list"), says=("vox", "abbrevs")),
        works=Try(
            words=("xonsh", "--no-rc", "-c", "xontrib load vox abbrevs; vox --help; print('abbrevs' in globals())"),
            says=("virtual environment", "True"),
        ),
    ),
    "beets": RealHost(
        requirement="beets",
        plugins=("beets-alternatives", "beetcamp"),
        builds=("langdetect",),
        about="a namespace package (beetsplug), numpy and other compiled extensions",
        variables={"BEETSDIR": "{folder}"},
        files={"config.yaml": "directory: music\nplugins: [alternatives, bandcamp]\n"},
        visible=Try(words=("beet", "version"), says=("alternatives", "bandcamp")),
        works=Try(words=("beet", "alt", "--help"), says=("update",)),
    ),
    "mitmproxy": RealHost(
        requirement="mitmproxy",
        plugins=("mitmproxy2swagger", "mitmproxy-escher"),
        builds=("pyperclip",),
        about="compiled extensions (Rust), several commands, a server; its addons are scripts",
        commands=("mitmdump", "mitmweb"),
        files={
            "addon.py": (
                "import mitmproxy2swagger.mitmproxy_capture_reader as reader\n"
                "import importlib.metadata\n"
                "print('addon with', reader.MitmproxyCaptureReader.__name__)\n"
                "print('escher', importlib.metadata.version('mitmproxy-escher'))\n"
            )
        },
        visible=Try(words=("mitmdump", "-s", "addon.py", "-n", "-q", "-r", "/dev/null"), says=("escher 5",)),
        works=Try(
            words=("mitmdump", "-s", "addon.py", "-n", "-q", "-r", "/dev/null"),
            says=("addon with MitmproxyCaptureReader",),
        ),
        serves=("mitmweb", "--no-web-open-browser", "--web-port", "{port}", "--listen-port", "0", "-s", "addon.py"),
        questions=(Question(says=("mitmproxy",)),),
    ),
    "pelican": RealHost(
        requirement="pelican[markdown]",
        plugins=("pelican-sitemap", "pelican-neighbors"),
        about="a namespace package inside the host's own package (pelican.plugins), an extra",
        files={
            "content/a.md": "Title: One\nDate: 2026-01-01\n\nText.\n",
            "pelicanconf.py": "SITENAME = 'trial'\nSITEURL = 'https://example.org'\nSITEMAP = {'format': 'xml'}\n",
        },
        visible=Try(words=("pelican-plugins",), says=("pelican.plugins.sitemap", "pelican.plugins.neighbors")),
        works=Try(
            words=("pelican", "content", "-s", "pelicanconf.py", "-o", "out"),
            says=("<urlset",),
            reads="out/sitemap.xml",
        ),
    ),
    "tox": RealHost(
        requirement="tox==4.*",
        plugins=("tox-uv", "tox-gh"),
        about="pluggy entry points, environments of its own",
        files={"tox.ini": "[tox]\nskipsdist = true\n[testenv]\nskip_install = true\ncommands = python -c print(6*7)\n"},
        visible=Try(words=("tox", "--version"), says=("tox-uv", "tox-gh")),
        works=Try(words=("tox", "config", "-k", "runner"), says=("uv-venv",)),
    ),
    "poetry": RealHost(
        requirement="poetry==2.*",
        plugins=("poetry-plugin-export", "poetry-plugin-shell"),
        about="entry points, compiled extensions, `poetry self add`",
        files={
            "pyproject.toml": '[project]\nname = "trial"\nversion = "1"\nrequires-python = ">=3.9"\n',
        },
        visible=Try(words=("poetry", "self", "show", "plugins"), says=("poetry-plugin-export", "poetry-plugin-shell")),
        works=Try(words=("poetry", "export", "--help"), says=("requirements.txt",)),
    ),
    "httpie": RealHost(
        requirement="httpie",
        plugins=("httpie-jwt-auth", "httpie-edgegrid"),
        about="entry points, several commands, `httpie plugins install`",
        variables={"HTTPIE_CONFIG_DIR": "{folder}"},
        visible=Try(
            words=("http", "--debug"), says=("httpie_jwt_auth.JWTAuthPlugin", "httpie_edgegrid.EdgeGridPlugin")
        ),
        works=Try(words=("http", "--offline", "-A", "jwt", "-a", "secret:", "example.org"), says=("Bearer secret",)),
    ),
    "keyring": RealHost(
        requirement="keyring",
        plugins=("keyrings-alt", "keyrings-google-artifactregistry-auth"),
        about="a namespace package (keyrings), compiled extensions (cryptography), an entry point for tox",
        variables={"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring", "XDG_DATA_HOME": "{folder}"},
        visible=Try(words=("keyring", "--list-backends"), says=("keyrings.alt", "keyrings.gauth")),
        # What the file holds is `secret`, as the plugin writes it.
        files={"python_keyring/keyring_pass.cfg": "[trial]\nuser = c2VjcmV0\n"},
        works=Try(words=("keyring", "get", "trial", "user"), says=("secret",)),
    ),
    "mdformat": RealHost(
        requirement="mdformat",
        plugins=("mdformat-gfm", "mdformat-frontmatter"),
        about="entry points in several groups",
        files={"a.md": "---\ntitle:   x\n---\n\n|a|b|\n|-|-|\n|1|2|\n"},
        visible=Try(words=("mdformat", "--version"), says=("mdformat-gfm", "mdformat_frontmatter")),
        works=Try(words=("mdformat", "a.md"), says=("| a   | b   |", "title:"), reads="a.md"),
    ),
    "yt-dlp": RealHost(
        requirement="yt-dlp",
        plugins=("bgutil-ytdlp-pot-provider", "yt-dlp-ejs"),
        about="a namespace package (yt_dlp_plugins)",
        visible=Try(words=("yt-dlp", "-v"), says=("yt_dlp_plugins",), accepted=(2,)),
        works=Try(words=("yt-dlp", "-v", "--list-extractors"), says=("youtube",)),
    ),
    "supervisor": RealHost(
        requirement="supervisor==4.2.5",
        plugins=("superlance", "supervisor-twiddler"),
        beside=("setuptools<81",),
        builds=("supervisor-twiddler",),
        about="pkg_resources, a server that runs others, commands of a plugin's own",
        commands=("supervisord", "supervisorctl"),
        files={
            "supervisord.conf": (
                "[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\n"
                "pidfile=%(here)s/supervisord.pid\n"
                "[inet_http_server]\nport=127.0.0.1:{port}\n"
                "[rpcinterface:supervisor]\n"
                "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n"
                "[rpcinterface:twiddler]\n"
                "supervisor.rpcinterface_factory = supervisor_twiddler.rpcinterface:make_twiddler_rpcinterface\n"
                "[eventlistener:memory]\ncommand={home}/bin/perdure-pm run -- memmon -a 1GB\nevents=TICK_60\n"
                "stderr_logfile=NONE\n"
            )
        },
        visible=Try(words=("perdure-pm", "run", "--", "memmon", "--help"), says=("memmon.py",)),
        works=Try(
            words=("perdure-pm", "run", "--", "python", "-c", "import supervisor_twiddler.rpcinterface as r; print(r)"),
            says=("supervisor_twiddler",),
        ),
        serves=("supervisord", "-c", "supervisord.conf"),
        questions=(
            Question(
                page="/RPC2",
                posts="<methodCall><methodName>system.listMethods</methodName></methodCall>",
                says=("twiddler.addProgramToGroup",),
            ),
            Question(
                page="/RPC2",
                posts="<methodCall><methodName>supervisor.getAllProcessInfo</methodName></methodCall>",
                says=("memory", "RUNNING"),
            ),
        ),
    ),
    "commitizen": RealHost(
        requirement="commitizen",
        plugins=("cz-conventional-gitmoji", "cz-conventional-plus"),
        about="entry points of two kinds; importing it loads its plugins",
        commands=("cz",),
        visible=Try(words=("cz", "ls"), says=("cz_gitmoji", "cz_conventional_plus")),
        works=Try(words=("cz", "--name", "cz_gitmoji", "example"), says=("fix: correct minor typos",)),
    ),
}
