#!/bin/sh
# Written by perdure-pm; changes are overwritten.
# Finds the home from its own place, also through symbolic links, without starting a process where there is no link.
unset __PYVENV_LAUNCHER__ PYTHONEXECUTABLE # by either a venv's interpreter takes itself for another, also with -I
self=$0
case $self in */*) ;; *) self=./$self ;; esac
while [ -L "$self" ]; do
    # The x keeps a newline at the end of the name, which a command substitution would drop.
    link=$(readlink "$self" && echo x) || exit 70
    link=${link%??}
    case $link in /*) self=$link ;; *) self=${self%/*}/$link ;; esac
done
folder=${self%/*}
home=$folder/.. # what the kernel makes of it is right also where the folder is a link
case $folder in */bin) [ -L "$folder" ] || home=${folder%/bin} ;; esac
