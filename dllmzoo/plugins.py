"""Import a user's components: files beside a recipe, or modules."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from dllmzoo.errors import PluginError


def load_plugins(plugins: Iterable[str], folder: Path) -> list[ModuleType]:
    """Import each plug-in once; a second call with the same file returns the same module.

    Args:
        plugins: `./my_parts.py` (relative to `folder`) or an importable module name.
        folder: the folder of the recipe.

    Raises:
        PluginError: a plug-in is missing or fails while it is imported; names the plug-in.
    """
    return [load_plugin(plugin, folder) for plugin in plugins]


def load_plugin(plugin: str, folder: Path) -> ModuleType:
    """Import one plug-in; see `load_plugins`."""
    try:
        if plugin.endswith(".py"):
            return _load_file((folder / plugin).resolve())
        return importlib.import_module(plugin)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"the plug-in {plugin!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PluginError(f"the plug-in {path} is not there; paths are relative to the recipe")
    digest = hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()
    name = f"dllmzoo_plugin_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
