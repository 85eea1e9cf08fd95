#!/bin/sh
# Written by perdure-pm; changes are overwritten.
# Finds the home from its own place, also through symbolic links, without starting a process where there is no link.
unset __PYVENV_LAUNCHER__ # it would make a venv's interpreter take itself for another
self=$0
case $self in */*) ;; *) self=./$self ;; esac
while [ -L "$self" ]; do
    # The x keeps a newline at the end of the name, which a command substitution would drop.
    link=$(readlink "$self" && echo x) || exit 70
    link=${link%??}
    case $link in /*) self=$link ;; *) self=${self%/*}/$link ;; esac
done
folder=${self%/*}
case $folder in */bin) home=${folder%/bin} ;; *) home=$folder/.. ;; esac
