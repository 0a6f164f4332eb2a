/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can run code, by module: see pickle_dangers.h. Three kinds:
 *
 *   Python's library    all of it but what keeps data (collections, datetime, re, …), of 2 as of 3
 *   NumPy and torch     the parts that compile, execute, load files or start processes
 *   other packages      those that do such things for a living
 *
 * Single names of a module that keep data have rows in pickle_names.c, which come first.
 */
#include "pickle_dangers.h"

#include "sort.h"
#include "text.h"

#define DANGERS_MAX_PATH 256

/* Sorted by their bytes; a module that is below another one of the table has no row. */
/* clang-format off */
static const char *const dangers_modules[] = {
    "BaseHTTPServer", "Bastion", "CGIHTTPServer", "Cookie", "Crypto", "Cython", "DocXMLRPCServer", "IPython",
    "SimpleHTTPServer", "SimpleXMLRPCServer", "SocketServer", "Tkinter", "_aix_support", "_asyncio",
    "_bootsubprocess", "_bz2", "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr",
    "_codecs_tw", "_compat_pickle", "_compression", "_crypt", "_ctypes", "_curses", "_curses_panel", "_dbm",
    "_distutils_hack", "_elementtree", "_frozen_importlib", "_frozen_importlib_external", "_functools", "_gdbm",
    "_imp", "_interpchannels", "_interpreters", "_io", "_lsprof", "_lzma", "_markupbase", "_msi", "_multibytecodec",
    "_multiprocessing", "_operator", "_osx_support", "_overlapped", "_pickle", "_posixshmem", "_posixsubprocess",
    "_py_abc", "_pyio", "_pyrepl", "_pytest", "_scproxy", "_signal", "_sitebuiltins", "_socket", "_sqlite3", "_ssl",
    "_symtable", "_testcapi", "_thread", "_threading_local", "_tkinter", "_tracemalloc", "_uuid", "_winapi",
    "_winreg", "_xxsubinterpreters", "aifc", "aiofiles", "aiohttp", "annotationlib", "antigravity", "anydbm", "anyio",
    "argparse", "asynchat", "asyncio", "asyncore", "atexit", "audioop", "bdb", "binhex", "boto", "boto3", "botocore",
    "bsddb", "bz2", "cPickle", "cProfile", "celery", "cffi", "cgi", "cgitb", "click", "cloudpickle", "cmd", "code",
    "codecs", "codeop", "commands", "compileall", "compiler", "compression", "concurrent", "conda", "configparser",
    "contextlib", "cookielib", "copyreg", "crypt", "ctypes", "cupy", "curses", "cython", "dask", "dbhash", "dbm",
    "dill", "dircache", "dis", "distutils", "django", "docker", "doctest", "docutils", "dumbdbm", "dummy_thread",
    "dummy_threading", "email", "encodings", "ensurepip", "execnet", "fabric", "fastapi", "faulthandler", "fcntl",
    "filecmp", "fileinput", "filelock", "flask", "formatter", "fsspec", "ftplib", "functools", "gc", "gdbm",
    "getpass", "gevent", "git", "glob", "google", "gradio", "grp", "gunicorn", "gzip", "h5py", "hotshot", "http",
    "httplib", "httplib2", "httpx", "hydra", "idlelib", "ihooks", "imaplib", "imghdr", "imp", "importlib", "imputil",
    "inspect", "invoke", "io", "ipykernel", "jedi", "jinja2", "joblib", "jsonpickle", "jupyter", "klepto", "lib2to3",
    "linecache", "logging", "lxml", "lzma", "macpath", "mailbox", "mailcap", "mako", "marshal", "mimetypes", "mlflow",
    "mmap", "modulefinder", "msilib", "msvcrt", "multiprocess", "multiprocessing", "netCDF4", "netrc", "new", "nis",
    "nltk", "nntplib", "nose", "notebook", "nt", "ntpath", "nturl2path", "numba", "numexpr", "numpy._build_utils",
    "numpy._core._internal", "numpy._core.memmap", "numpy._core.records", "numpy._distributor_init",
    "numpy._pytesttester", "numpy.compat", "numpy.conftest", "numpy.core._internal", "numpy.core.memmap",
    "numpy.core.records", "numpy.ctypeslib", "numpy.distutils", "numpy.f2py", "numpy.lib._datasource",
    "numpy.lib._format_impl", "numpy.lib._npyio_impl", "numpy.lib._utils_impl", "numpy.lib.format",
    "numpy.lib.introspect", "numpy.lib.npyio", "numpy.lib.utils", "numpy.ma.mrecords", "numpy.rec", "numpy.testing",
    "numpy.tests", "numpy.typing.mypy_plugin", "operator", "optparse", "os", "os2", "ossaudiodev",
    "pandas.core.computation", "pandas.io", "paramiko", "parser", "parsl", "pathlib", "pathlib2", "pathos", "pdb",
    "pdbpp", "pebble", "pexpect", "pickle", "pickletools", "pip", "pipes", "pkg_resources", "pkgutil", "platform",
    "plistlib", "plumbum", "popen2", "poplib", "posix", "posixfile", "posixpath", "pox", "ppft", "pptree", "profile",
    "pstats", "psutil", "psycopg2", "pty", "ptyprocess", "pwd", "py_compile", "pyarrow.fs", "pyclbr", "pycparser",
    "pydoc", "pydoc_data", "pyexpat", "pymysql", "pyspark", "pytest", "pywintypes", "qtconsole", "ray", "readline",
    "redis", "requests", "resource", "rexec", "rlcompleter", "ruamel", "runpy", "s3fs", "scipy._lib", "scipy.io",
    "scipy.weave", "select", "selectors", "setuptools", "sh", "shelve", "shlex", "shutil", "signal", "site",
    "smart_open", "smtpd", "smtplib", "sndhdr", "socket", "socketserver", "spwd", "sqlalchemy", "sqlite3", "srsly",
    "ssl", "statvfs", "streamlit", "subprocess", "sunau", "sympy", "symtable", "sys", "sysconfig", "syslog",
    "tabnanny", "tarfile", "telnetlib", "tempfile", "tensorboard", "tensorflow", "termios", "test", "this", "thread",
    "threading", "timeit", "tkinter", "torch._C", "torch._appdirs", "torch._awaits", "torch._classes",
    "torch._compile", "torch._custom_op", "torch._custom_ops", "torch._decomp", "torch._deploy", "torch._dispatch",
    "torch._dynamo", "torch._export", "torch._functorch", "torch._guards", "torch._higher_order_ops",
    "torch._inductor", "torch._jit_internal", "torch._lazy", "torch._library", "torch._logging",
    "torch._meta_registrations", "torch._numpy.testing", "torch._ops", "torch._prims", "torch._python_dispatcher",
    "torch._running_with_deploy", "torch._sources", "torch._subclasses", "torch._thread_safe_fork", "torch._vendor",
    "torch._weights_only_unpickler", "torch.classes", "torch.compiler", "torch.contrib", "torch.csrc",
    "torch.cuda._gpu_trace", "torch.cuda._memory_viz", "torch.cuda.jiterator", "torch.distributed.argparse_util",
    "torch.distributed.autograd", "torch.distributed.c10d_logger", "torch.distributed.checkpoint.utils",
    "torch.distributed.distributed_c10d", "torch.distributed.elastic", "torch.distributed.launch",
    "torch.distributed.launcher", "torch.distributed.nn.jit", "torch.distributed.rpc", "torch.distributed.run",
    "torch.export", "torch.fx", "torch.hub", "torch.jit", "torch.library", "torch.monitor", "torch.multiprocessing",
    "torch.onnx", "torch.ops", "torch.overrides", "torch.package", "torch.profiler", "torch.serialization",
    "torch.storage", "torch.testing", "torch.utils._config_module", "torch.utils._config_typing",
    "torch.utils._cpp_embed_headers", "torch.utils._cpp_extension_versioner", "torch.utils._cxx_pytree",
    "torch.utils._debug_mode", "torch.utils._freeze", "torch.utils._import_utils", "torch.utils._python_dispatch",
    "torch.utils._pytree", "torch.utils._strobelight", "torch.utils._triton", "torch.utils.backcompat",
    "torch.utils.backend_registration", "torch.utils.benchmark", "torch.utils.bottleneck",
    "torch.utils.bundled_inputs", "torch.utils.checkpoint", "torch.utils.collect_env", "torch.utils.cpp_backtrace",
    "torch.utils.cpp_extension", "torch.utils.data._utils", "torch.utils.data.backward_compatibility",
    "torch.utils.data.dataloader", "torch.utils.data.datapipes", "torch.utils.data.graph",
    "torch.utils.data.graph_settings", "torch.utils.file_baton", "torch.utils.flop_counter", "torch.utils.hipify",
    "torch.utils.jit", "torch.utils.mobile_optimizer", "torch.utils.model_dump", "torch.utils.model_zoo",
    "torch.utils.serialization", "torch.utils.show_pickle", "torch.utils.tensorboard", "torch.utils.viz",
    "torchaudio.io", "torchvision.datasets", "torchvision.io", "tornado", "tox", "trace", "traceback", "tracemalloc",
    "tty", "turtle", "turtledemo", "twisted", "typer", "types", "unittest", "urllib", "urllib2", "urllib3", "uu",
    "uuid", "uvicorn", "venv", "virtualenv", "wandb", "wave", "webbrowser", "websocket", "websockets", "wheel",
    "whichdb", "win32api", "win32com", "win32process", "winreg", "winsound", "wsgiref", "xdrlib", "xml", "xmlrpc",
    "xmlrpclib", "xonsh", "yaml", "zipapp", "zipfile", "zipimport", "zmq",
};
/* clang-format on */

/* A text within another one. */
typedef struct dangers_part {
    const char *text;
    size_t len;
} dangers_part;

static int dangers_compare(const void *modules, size_t i, const void *wanted)
{
    const char *module = ((const char *const *)modules)[i];
    const dangers_part *part = wanted;
    return coffer__compare_names(module, coffer__text_len(module), part->text, part->len);
}

static bool dangers_has(const char *text, size_t len)
{
    const dangers_part part = { text, len };
    size_t found = 0;
    return coffer__find_sorted(sizeof dangers_modules / sizeof *dangers_modules, dangers_compare, dangers_modules,
                               &part, &found);
}

/* The module, or one that it is below: of "torch.jit._script" each of "torch", "torch.jit" and all of it. */
static bool dangers_is_below(const char *module)
{
    for (size_t len = 0;; len++) {
        if ((module[len] == '.' || module[len] == '\0') && dangers_has(module, len)) {
            return true;
        }
        if (module[len] == '\0') {
            return false;
        }
    }
}

/* Attributes of harmless modules are other modules that they import, some by a name with an underscore before it. */
static bool dangers_is_on_path(const char *path)
{
    while (true) {
        path += *path == '_';
        if (dangers_is_below(path)) {
            return true;
        }
        while (*path != '\0' && *path != '.') {
            path++;
        }
        if (*path == '\0') {
            return false;
        }
        path++;
    }
}

bool coffer__reaches_danger(const char *module, const char *name)
{
    /* What is longer than any module of the table is cut: it may be below one all the same. */
    char joined[DANGERS_MAX_PATH];
    size_t len = 0;
    size_t dots = 0;
    for (size_t i = 0; module[i] != '\0' && len < sizeof joined - 2; i++) {
        joined[len++] = module[i];
    }
    joined[len++] = '.';
    for (size_t i = 0; name[i] != '\0'; i++) {
        if (len < sizeof joined - 1) {
            joined[len++] = name[i];
        }
        dots += name[i] == '.';
    }
    joined[len] = '\0';
    return dangers_is_below(joined) || (dots > 0 && dangers_is_on_path(name));
}

const char *coffer__danger_at(size_t i)
{
    return i < sizeof dangers_modules / sizeof *dangers_modules ? dangers_modules[i] : NULL;
}
