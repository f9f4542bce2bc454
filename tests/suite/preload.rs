//! Imitates other file systems: a library that a program loads before the system's own refuses file locks, reports a full
//! disk, gives the machine another name, or holds a process at a file, as environment variables say.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NO_LOCKS: there are none. OWN_LOCKS: they are of one machine, on which nobody else is. */
int flock(int file, int how) {
    static int (*own)(int, int);
    if (!own) own = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    if (getenv("OWN_LOCKS")) return 0;
    if (!getenv("NO_LOCKS")) return own(file, how);
    errno = ENOLCK;
    return -1;
}

/* HOST_FILE: what the machine is called stands there. */
int open64(const char *path, int flags, ...) {
    static int (*own)(const char *, int, ...);
    if (!own) own = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    const char *host = getenv("HOST_FILE");
    return own(host && !strcmp(path, "/proc/sys/kernel/hostname") ? host : path, flags, mode);
}

/* FULL_BELOW: the disk of this folder is full after FULL_AFTER bytes, but for what fits into blocks that files have. */
ssize_t write(int file, const void *bytes, size_t count) {
    static ssize_t (*own)(int, const void *, size_t);
    static atomic_long written;
    if (!own) own = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    const char *below = getenv("FULL_BELOW");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = below && count > 512 ? readlink(link, path, sizeof path) : 0;
    if (length >= (ssize_t)(below ? strlen(below) : 1) && !strncmp(path, below, strlen(below))
        && atomic_fetch_add(&written, count) + (long)count > atol(getenv("FULL_AFTER"))) {
        errno = ENOSPC;
        return -1;
    }
    return own(file, bytes, count);
}

/* HOLD_AT: who has put a file in place whose path ends so waits as long as there is the file HOLD, ten minutes at most. */
int rename(const char *from, const char *to) {
    static int (*own)(const char *, const char *);
    if (!own) own = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    int done = own(from, to);
    const char *name = getenv("HOLD_AT");
    size_t length = strlen(to), end = name ? strlen(name) : length + 1;
    if (!done && length >= end && !strcmp(to + length - end, name))
        for (int waits = 0; waits < 300000 && !access(getenv("HOLD"), F_OK); waits++) usleep(2000);
    return done;
}
"#;

/// The file that is there while processes are held.
fn hold_file(library: &Path) -> PathBuf {
    library.with_extension("hold")
}

/// Loads the library into a command and what it starts. `LD_PRELOAD` ends a path at a space, so it names the file, and another
/// variable its folder.
pub fn load<'a>(command: &'a mut Command, library: &Path) -> &'a mut Command {
    let (folder, name) = (library.parent().expect("a folder"), library.file_name().expect("a name"));
    command.env("LD_PRELOAD", name).env("LD_LIBRARY_PATH", folder)
}

/// Holds a command, or a process that it starts, at the moment at which a file whose path ends with `name` is in its place,
/// until [`release`]: however fast the machine is, it gets no further.
pub fn hold(library: &Path, mut command: Command, name: &str) -> Command {
    let file = hold_file(library);
    fs::write(&file, "").expect("a file");
    load(&mut command, library).env("HOLD_AT", name).env("HOLD", file);
    command
}

/// Lets those go on that are held.
pub fn release(library: &Path) {
    fs::remove_file(hold_file(library)).expect("a file");
}

/// Compiles the library into a folder; `None`, with a note, without a C compiler.
pub fn library(folder: &Path) -> Option<PathBuf> {
    let [source, library] = ["preload.c", "preload.so"].map(|name| folder.join(name));
    fs::write(&source, SOURCE).expect("a file");
    let mut compiler = Command::new("cc");
    match compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status() {
        Ok(status) if status.success() => Some(library),
        _ => {
            skip::missing("no C compiler");
            None
        }
    }
}
