# The machine's Python; the tests put that of their own machine here.
{
  base = "/usr";
  interpreter = "/usr/bin/python3.11";
  version = "3.11.2";
  glibc = "2.36";
}
