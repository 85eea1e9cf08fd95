@echo off
rem Written by perdure-pm; changes are overwritten. Generated and reviewed, not yet tried on Windows.
"%~dp0..\@TARGET@" %*
exit /b %errorlevel%
