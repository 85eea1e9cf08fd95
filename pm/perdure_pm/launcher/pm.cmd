@echo off
rem Written by perdure-pm; changes are overwritten. Generated and reviewed, not yet tried on Windows.
setlocal DisableDelayedExpansion
set "home=%~dp0.."
set "PYTHONEXECUTABLE="
set "runtime="
if exist "%home%\pm\current" set /p runtime=<"%home%\pm\current"
if not defined runtime goto rescue
if not exist "%home%\pm\runtimes\%runtime%\venv\Scripts\python.exe" goto rescue
if not exist "%home%\pm\runtimes\%runtime%\entry.py" goto rescue
"%home%\pm\runtimes\%runtime%\venv\Scripts\python.exe" -I "%home%\pm\runtimes\%runtime%\entry.py" %*
exit /b %errorlevel%
:rescue
set "seed="
if exist "%home%\pm\seed\current" set /p seed=<"%home%\pm\seed\current"
if not defined seed goto gone
if not exist "%home%\pm\seed\%seed%\pm\bootstrap.py" goto gone
py -3 -I "%home%\pm\seed\%seed%\pm\bootstrap.py" --home "%home%" rescue %*
exit /b %errorlevel%
:gone
echo error: PM's runtime and the seed that rebuilds it are gone from this home 1>&2
echo   try: py -3 pm\bootstrap.py --home "%home%" up   (in a checkout of Perdure) 1>&2
exit /b 1
