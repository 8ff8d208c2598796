"""Argument rules by program: by the name it is called with and by its file name. The lists are meant to be read by people."""

import re

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs import code, files, network, python_modules, wrappers
from tools_app.exec.gate.programs import git as rules_git
from tools_app.exec.gate.programs.code import INTERPRETERS, ArgumentRule
from tools_app.exec.gate.programs.invocation import ProgramCall
from tools_app.exec.gate.types import split_names

SHELLS = split_names("""bash sh dash zsh ksh mksh fish csh tcsh ash rbash yash elvish nu pwsh powershell xonsh
    sash posh rc slsh lksh ksh93 es osh oil""")
COMPILERS = split_names("gcc g++ cc c++ clang clang++ c89 c99 c89-gcc c99-gcc")
MULTI_CALL = split_names("busybox toybox sbase-box ubase-box coreutils toolbox")
# These programs start the program named in their arguments; only some of them have argument rules.
WRAPPERS = frozenset(wrappers.SIMPLE_WRAPPERS) | split_names("""
    env xargs find sudo doas su runuser pkexec chroot unshare nsenter setpriv time
    strace ltrace gdb valgrind perf watch
    script parallel chrt taskset numactl prlimit systemd-run start-stop-daemon daemonize run-parts unbuffer rlwrap
    faketime fakeroot proot firejail bwrap ssh mosh entr inotifywait dbus-run-session xvfb-run setarch linux32 linux64
    i386 x86_64 catchsegv choom flatpak tini dumb-init gosu su-exec ld.so ld-linux.so ld-linux-x86-64.so nsexec
    with-contenv cgexec torsocks torify proxychains proxychains4 ccache distcc sccache npx pnpx bunx uvx pipx direnv asdf
    mise nix-shell nix conda mamba poetry pipenv hatch pdm rye tox nox hyperfine expect at batch
    deno bun java ghc dc
    aa-exec runcon cpulimit softlimit setlock multitime capsh logsave pg_virtualenv sshpass chpst setuidgid envuidgid envdir
    runsv runsvdir daemon dtach abduco eatmydata ifne pee mispipe zrun lckdo pexec ksu sudoedit systemd-nspawn
    systemd-inhibit systemd-cat machinectl msgfilter msgexec xinit startx dbus-launch gtk-launch grc bear scan-build
    checkinstall gtester fakeroot-sysv fakeroot-tcp fakechroot pseudo xe xjobs""")
# Programs that can start others or change the system, and have no argument rules yet.
VERSION_ONLY_PROGRAMS = split_names("""
    vi vim nvim view ex ed emacs emacsclient nano pico micro joe mcedit kak helix less more most pg man info
    lesspipe w3m
    lynx links elinks ftp lftp telnet nc ncat netcat socat ssh scp sftp ssh-keygen ssh-add ssh-agent mosh tmux screen
    byobu crontab at batch cron systemctl service initctl launchctl journalctl loginctl mount umount losetup kill killall
    pkill skill mkfs fdisk parted apt apt-get aptitude dpkg dpkg-deb snap flatpak yum dnf rpm zypper pacman apk brew port
    gem bundle rake cpan cpanm pear composer yarn pnpm npx pnpx corepack uv uvx poetry pipenv pipx hatch pdm conda mamba
    tox nox pre-commit nix nix-shell guix mvn gradle gradlew ant sbt lein bazel cmake ctest ninja meson scons autoconf
    automake libtool configure rustc rustup dotnet msbuild mono javac jshell jrunscript kotlinc swift swiftc ghci
    stack cabal ocaml opam erl iex mix racket sbcl clisp gh glab hub svn hg cvs bzr fossil git-shell git-upload-pack
    git-receive-pack sqlite3 psql mysql mariadb mongosh mongo redis-cli docker-compose podman buildah skopeo nerdctl ctr
    kubectl helm k9s minikube kind terraform tofu ansible ansible-playbook puppet chef salt vagrant packer virsh
    qemu-system-x86_64 aws gcloud az doctl heroku fly vercel netlify wrangler openssl gpg gpg2 age pass patch cpio pax ar
    ld as objcopy install-info update-alternatives dmesg sysctl modprobe insmod rmmod ip ifconfig route iptables nft tc
    tcpdump nmap wireshark tshark arp useradd userdel usermod groupadd passwd chpasswd chsh visudo login newgrp sg
    xdg-open open gnome-open start code subl eog feh mpv vlc ffmpeg convert magick mogrify gs latex pdflatex xelatex
    lualatex tex latexmk pandoc jupyter ipython celery gunicorn uvicorn flask django-admin rails rackup puma hexedit mc
    ranger nnn fzf peco dialog whiptail zenity rofi dmenu ag ack csplit logrotate rename prename mmv mail sendmail mutt
    msmtp wall write xterm gnome-terminal konsole reset stty chvt openvt agetty fuser lsof unlink mkfifo mknod m4 cpp yacc bison
    flex lex gperf swig protoc perf bpftrace stap rr lldb claw
    gvim rvim rview vimdiff vimtutor gvimdiff evim eview rgvim rgview nvimdiff rnano red jed ne vipw vigr vipe vidir editor pager
    sensible-editor sensible-pager sensible-browser sensible-terminal run-mailcap see edit compose print x-www-browser
    www-browser x-terminal-emulator uxterm lxterm rxvt urxvt kitty alacritty gio exo-open kde-open yelp zathura
    zless zmore bzless bzmore xzless xzmore lzless lzmore lz4less zstdless bat batcat fd fdfind top htop atop iftop ncdu
    sdiff diff3 colordiff icdiff ldd ranlib strip gcc-ar gcc-nm gcc-ranlib lto-wrapper tic nroff groff troff eqn
    tbl pic soelim grotty mandoc
    R irb pry erb byebug octave octave-cli maxima gp sage gnuplot ipython3 pdb pdb3 pydoc pydoc3 idle idle3 easy_install
    prove perldoc perlbug ptar instmodsh cowsay cowthink exiftool jjs scheme chibi gforth ginsh
    dmsetup busctl timedatectl localectl hostnamectl resolvectl systemd-resolve systemd-analyze networkctl bootctl coredumpctl
    debugfs crash gcore gdbserver scanmem setfacl facter knife salt-call cdist certbot restic apache2ctl nginx openvpn
    minicom rlogin ncftp psftp smbclient aria2c whois mtr ssh-keyscan ssh-copy-id autossh sshfs rclone
    msfconsole sqlmap cupsfilter enscript dvips pdftex luatex xetex genie gimp dosbox neofetch pidstat dstat task tasksh
    tmate zellij wine runscript unsquashfs easyrsa xdotool xdg-user-dir rtorrent varnishncsa csvtool cobc
    bundler debuild dpkg-buildpackage dpkg-reconfigure apt-key pkg opkg node-gyp tsx ts-node swipl gprolog
    pg_ctl initdb createdb dropdb pg_dump mysqldump mycli pgcli usql litecli""")
READ_ONLY_PROGRAMS = split_names("""
    ls cat head tail wc grep egrep fgrep zgrep cut tr diff cmp comm file stat du df nl od hexdump strings basename
    dirname
    realpath readlink date id whoami uname printenv seq sleep md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum
    cksum sum base64 base32 jq column paste join fold fmt expand unexpand rev tac nproc free uptime ps which zcat bzcat
    xzcat zdiff numfmt factor echo printf pwd test [ true false tty groups arch locale getconf lscpu lsblk pgrep pidof who
    users logname yes expr bc""")
_RULES: dict[str, ArgumentRule] = {
    "git": rules_git.check_git,
    "sed": files.check_sed,
    "gsed": files.check_sed,
    "sort": files.check_sort,
    "tar": files.check_tar,
    "gtar": files.check_tar,
    "bsdtar": files.check_tar,
    "unzip": files.check_unzip,
    "dd": files.check_dd,
    "find": wrappers.unwrap_find,
    "gfind": wrappers.unwrap_find,
    "xargs": wrappers.unwrap_xargs,
    "env": wrappers.unwrap_env,
    "make": code.check_make,
    "gmake": code.check_make,
    "npm": code.check_npm,
    "pip": code.check_pip,
    "pytest": python_modules.check_pytest,
    "py.test": python_modules.check_pytest,
    "cargo": code.check_subcommands,
    "go": code.check_subcommands,
    "curl": network.check_curl,
    "wget": network.check_wget,
    "rsync": network.check_rsync,
    "docker": network.check_docker,
}
_SHARED_RULES: tuple[tuple[frozenset[str], ArgumentRule], ...] = (
    (frozenset(wrappers.SIMPLE_WRAPPERS), wrappers.unwrap_simple),
    (split_names("awk gawk mawk nawk original-awk"), files.check_awk),
    (frozenset(files.WRITERS), files.check_writer),
    (files.PACKERS, files.check_packer),
    (frozenset(files.READS_BY_LIST), files.check_reader),
    (COMPILERS, code.check_compiler),
    (frozenset(INTERPRETERS), code.check_interpreter),
    (SHELLS, code.check_shell),
    (
        MULTI_CALL | (WRAPPERS - {"find", "xargs", "env"} - frozenset(wrappers.SIMPLE_WRAPPERS)) | VERSION_ONLY_PROGRAMS,
        code.check_version_only,
    ),
)
RULES: dict[str, ArgumentRule] = {name: rule for group, rule in reversed(_SHARED_RULES) for name in group} | _RULES
ALIASES = {"nodejs": "node"}
RUNS_WORKSPACE_CODE = split_names("make gmake npm pip pytest py.test cargo go")
register_reasons(
    {
        "never_always.shell": gettext_noop("{program} is a shell"),
        "never_always.multi_call": gettext_noop("{program} is a multi-call binary"),
        "never_always.wrapper": gettext_noop("{program} starts other programs"),
        "never_always.interpreter": gettext_noop("{program} is an interpreter"),
        "never_always.workspace_code": gettext_noop("{program} runs code from the workspace"),
        "never_always.powerful": gettext_noop("{program} can start other programs or change the system"),
    }
)
NEVER_GRANTED = (
    (SHELLS, "never_always.shell"),
    (MULTI_CALL, "never_always.multi_call"),
    (WRAPPERS, "never_always.wrapper"),
    (frozenset(INTERPRETERS), "never_always.interpreter"),
    (RUNS_WORKSPACE_CODE, "never_always.workspace_code"),
    (VERSION_ONLY_PROGRAMS | {"docker"}, "never_always.powerful"),
)
# Several versions of these can be installed side by side. In other names the number matters: diff3 is not diff.
VERSIONED = COMPILERS | frozenset().union(*(group for group, _ in NEVER_GRANTED))
VERSION_SUFFIX = re.compile(r"[-.]?[0-9][0-9.]*$")
BUILD_SUFFIX = re.compile(r"(?:\.(?:basic|tiny|nox|gtk3|openbsd|traditional)|-[a-z0-9_]+-linux-(?:gnu|musl)[a-z0-9]*)$")
TARGET_PREFIX = re.compile(r"^(?:(?:[a-z0-9_]+-)+linux-(?:gnu|musl)[a-z0-9]*|arm-none-eabi)-")


def canonical_name(base: str) -> str:
    """The name used in the lists: python3.11 is python, vim.tiny is vim, x86_64-linux-gnu-gcc-12 is gcc."""
    base = ALIASES.get(base, base)
    plain = TARGET_PREFIX.sub("", BUILD_SUFFIX.sub("", base))
    for name in (base, plain):
        if is_known(name):
            return name
    if (name := VERSION_SUFFIX.sub("", plain)) in VERSIONED:
        return name
    return "ld.so" if base.startswith("ld-") and ".so" in base else base


def is_known(name: str) -> bool:
    return name in RULES or name in READ_ONLY_PROGRAMS


def apply_rules(call: ProgramCall, *bases: str) -> None:
    """Apply the argument rules for every name of the program: the name it is called with and the name of its file."""
    reads_only = True
    applied: set[ArgumentRule] = set()
    for name in sorted(canonical_names(*bases)):
        rule = RULES.get(name)
        if rule is None:
            reads_only = reads_only and name in READ_ONLY_PROGRAMS
        elif rule not in applied:
            applied.add(rule)
            call.name, call.reads_only = name, False
            rule(call)
            reads_only = reads_only and call.reads_only
    call.reads_only = reads_only


def canonical_names(*bases: str) -> frozenset[str]:
    known = frozenset(map(canonical_name, bases))
    # A multi-call binary acts by the name it is called with: ls is ls, whatever the file name.
    return known - MULTI_CALL or known


def why_never_granted(*bases: str) -> Reason | None:
    """Why "always allow" is not offered; None if it is."""
    names = sorted(canonical_names(*bases))
    return next((Reason(code, program=name) for name in names for group, code in NEVER_GRANTED if name in group), None)
