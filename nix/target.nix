# What a package set's Python runs on, as markers and wheel tags see it.
#
# Owns: reading that off `pkgs` and a Python. Does not own: what follows from it. Pure.
{ pkgs, python }:
let
  inherit (builtins) elemAt fromJSON match;
  platform = pkgs.stdenv.hostPlatform;
  version = match "([0-9]+)\\.([0-9]+).*" python.version;
  glibc = match "([0-9]+)\\.([0-9]+).*" (pkgs.stdenv.cc.libc.version or "");
  isMusl = platform.isMusl or false;
  os =
    if platform.isLinux then
      "linux"
    else if platform.isDarwin then
      "darwin"
    else
      throw "perdure: there is no Nix build for ${platform.system}; it is for Linux and macOS";
  machine = platform.parsed.cpu.name;
in
rec {
  inherit os;
  arch = if os == "darwin" && machine == "aarch64" then "arm64" else machine;
  pythonMinor = fromJSON (elemAt version 1);
  # musllinux_1_2 is what wheels are made for: musl says less about itself than glibc.
  libc =
    if isMusl then
      {
        name = "musl";
        minor = 2;
      }
    else
      {
        name = "glibc";
        minor = if glibc == null then 28 else fromJSON (elemAt glibc 1);
      };
  # The oldest macOS that the package set builds for.
  macos = fromJSON (elemAt (match "([0-9]+).*" (platform.darwinMinVersion or "11.3")) 0);
  markers = {
    implementation_name = "cpython";
    implementation_version = python.version;
    os_name = "posix";
    platform_machine = arch;
    platform_python_implementation = "CPython";
    # What a build machine's kernel is called must not move what is built.
    platform_release = "";
    platform_version = "";
    platform_system = if os == "linux" then "Linux" else "Darwin";
    python_full_version = python.version;
    python_version = "${elemAt version 0}.${elemAt version 1}";
    sys_platform = os;
  };
}
