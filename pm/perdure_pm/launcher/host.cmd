@echo off
rem Written by perdure-pm; changes are overwritten. Generated and reviewed, not yet tried on Windows.
setlocal DisableDelayedExpansion
set "home=%~dp0.."
set "PYTHONEXECUTABLE="
if "@COMMAND@"=="perdure" if "%~1"=="pm" goto pm
set "profile=default"
if defined PERDURE_PROFILE set "profile=%PERDURE_PROFILE%"
set "generation="
if exist "%home%\profiles\%profile%\current" set /p generation=<"%home%\profiles\%profile%\current"
if not defined generation (
    echo error: nothing is installed in this home ^(profile %profile%^) 1>&2
    echo   try: "%home%\bin\perdure-pm.cmd" install 1>&2
    exit /b 1
)
set "environment=%home%\store\generations\%generation%\venv"
if not exist "%environment%\Scripts\python.exe" (
    echo error: generation %generation% cannot start: its interpreter is gone 1>&2
    echo   try: "%home%\bin\perdure-pm.cmd" install 1>&2
    exit /b 1
)
@ENVIRONMENT@
@PROTECT@
"%environment%\Scripts\@COMMAND@.exe" %*
exit /b %errorlevel%
:pm
rem %* ignores shift, so the rest is collected; arguments with carets or quotes inside are better given to perdure-pm itself.
set "rest="
:next
shift
if "%~1"=="" goto hand
set rest=%rest% %1
goto next
:hand
"%home%\bin\perdure-pm.cmd"%rest%
exit /b %errorlevel%
