"""Features of the app that are plugins: they import `perdure.api` and nothing else of the app.

Owns: the packages below. Does not own: which of them are loaded (plugin_manager.BUILTIN).
"""
