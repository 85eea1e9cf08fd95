"""The operating system and uv, each behind one module that alone knows its quirks."""
