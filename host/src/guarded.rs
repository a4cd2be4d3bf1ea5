//! Files in folders that other users may write to: nothing that they plant is followed, waited for or overwritten.
//!
//! A name in such a folder may be a link to any file of the user who runs the job, a second name of it (a hard link), or a FIFO that never
//! answers. So files are opened without following links and without waiting, what was opened is looked at before it is used, and only files
//! that were created here are written.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What no open of such a file may do: follow a link, wait for the other end of a FIFO, or take a terminal.
const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;
/// In a folder with this bit nobody removes or renames what is another user's.
const STICKY: u32 = 0o1000;

/// Opens a regular file to read it. The reader may look at owner and mode of what was opened: it is what will be read.
///
/// # Errors
/// The operating system's; or the name is a link, a folder, a FIFO or a device.
pub(crate) fn read(path: &Path) -> Result<File, Error> {
    open(path, OpenOptions::new().read(true))
}

/// Opens a regular file that has no other name, to write to it. Its content is left as it is.
///
/// # Errors
/// As [`read`]; or the file has another name, by which it may be somebody's.
pub(crate) fn write(path: &Path) -> Result<File, Error> {
    let file = open(path, OpenOptions::new().read(true).write(true))?;
    match file.metadata()?.nlink() {
        // None: it was removed just now.
        0 | 1 => Ok(file),
        _ => Err(refused("has a second name (it is a hard link)")),
    }
}

/// Creates a file that nobody else can write to, whatever the umask is.
///
/// # Errors
/// The operating system's; [`ErrorKind::AlreadyExists`] if there is anything of this name.
pub(crate) fn create_new(path: &Path) -> Result<File, Error> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).custom_flags(FLAGS).open(path)
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    let file = options.custom_flags(FLAGS).open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refused("is a symbolic link"),
        Some(libc::ENXIO) => refused("is a socket or a FIFO"),
        _ if error.kind() == ErrorKind::IsADirectory => refused("is a folder"),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("is not a regular file")) }
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("the file {what}, which Tidemill does not make: see whose it is and remove it"))
}

/// Whether only this user and root can change what is read from an open file.
///
/// # Errors
/// They are not the only ones: what is wrong.
pub(crate) fn check_ours(file: &Metadata) -> Result<(), String> {
    if !is_trusted(file.uid()) {
        return Err(format!("it belongs to user {}", file.uid()));
    }
    if file.mode() & OTHERS_WRITE != 0 {
        return Err(format!("its mode {:04o} lets other users write to it", file.mode() & 0o7777));
    }
    Ok(())
}

/// Why a folder cannot be kept for this user alone.
#[derive(Debug)]
pub(crate) enum NotOurs {
    /// It is not there and cannot be made.
    Absent(String),
    /// Somebody else can change what is in it, or put another in its place.
    Shared(String),
}

impl NotOurs {
    /// The reason, which names the folder to blame.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Absent(why) | Self::Shared(why) => why,
        }
    }
}

/// Makes a folder for this user alone, unless it is there, and returns its real path: one in which only this user and root can create,
/// rename or remove anything, nor in any folder above it.
///
/// # Errors
/// It cannot be made, or others can write there.
pub(crate) fn private_folder(dir: &Path) -> Result<PathBuf, NotOurs> {
    let absent = |error: Error| NotOurs::Absent(format!("the folder `{}` cannot be made: {error}", dir.display()));
    let absolute = std::path::absolute(dir).map_err(absent)?;
    // Nothing is made below what somebody else could exchange.
    if let Some(above) = absolute.ancestors().skip(1).find(|folder| folder.exists()) {
        check_trusted(&fs::canonicalize(above).map_err(absent)?, Last::Above)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&absolute).map_err(absent)?;
    let real = fs::canonicalize(&absolute).map_err(absent)?;
    check_trusted(&real, Last::Used)?;
    Ok(real)
}

/// What the last folder of a path is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Files in it are used.
    Used,
    /// A folder in it is made and used.
    Above,
}

/// Checks a path without links. A folder such as /tmp may stand in it: its sticky bit keeps others from renaming what is ours below it.
fn check_trusted(real: &Path, last: Last) -> Result<(), NotOurs> {
    let shared = |folder: &Path, why: String| NotOurs::Shared(format!("the folder `{}` {why}", folder.display()));
    let mut folders: Vec<&Path> = real.ancestors().collect();
    // ORDER: from the root down, since only a folder that nobody else can change keeps what is below it from being exchanged after the look.
    folders.reverse();
    for folder in folders {
        let found = fs::symlink_metadata(folder).map_err(|error| shared(folder, format!("cannot be looked at: {error}")))?;
        let may_be_sticky = folder != real || last == Last::Above;
        if !found.is_dir() {
            return Err(shared(folder, "has become something else".to_owned()));
        }
        if !is_trusted(found.uid()) {
            return Err(shared(folder, format!("belongs to user {}", found.uid())));
        }
        if found.mode() & OTHERS_WRITE != 0 && !(may_be_sticky && found.mode() & STICKY != 0) {
            return Err(shared(folder, format!("has mode {:04o}, so that other users can write to it", found.mode() & 0o7777)));
        }
    }
    Ok(())
}

/// The mode of a folder in which every user may write; `None` if not every user may.
pub(crate) fn open_to_all(dir: &Path) -> Option<u32> {
    let mode = fs::metadata(dir).ok()?.mode() & 0o7777;
    (mode & 0o002 != 0).then_some(mode)
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == user()
}

/// The user as whom the process acts.
#[expect(unsafe_code, reason = "the standard library does not tell the user")]
pub(crate) fn user() -> u32 {
    // SAFETY: it has no arguments, cannot fail, and touches no memory.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::{NotOurs, check_ours, create_new, private_folder, read, write};

    #[test]
    fn nothing_that_is_planted_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        fs::hard_link(at("victim"), at("twin")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["link", "dangling", "folder", "fifo", "socket"] {
            assert_eq!(read(&at(name)).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
            assert_eq!(write(&at(name)).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
            assert_eq!(create_new(&at(name)).unwrap_err().kind(), ErrorKind::AlreadyExists, "{name}");
        }
        assert!(write(&at("twin")).unwrap_err().to_string().contains("hard link"));
        assert!(read(&at("twin")).is_ok());
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        assert!(!at("nothing").exists());
    }

    #[test]
    fn what_others_can_change_is_not_ours() {
        let root = tempfile::tempdir().unwrap();
        let above = root.path().join("a");
        let dir = above.join("b");
        let chmod = |path: &std::path::Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&above).unwrap();
        for (mode, ours) in [(0o775, false), (0o777, false), (0o755, true), (0o1777, true)] {
            chmod(&above, mode);
            assert_eq!((private_folder(&dir).is_ok(), dir.exists()), (ours, ours), "{mode:o}");
        }
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        // Others could create what is then read.
        for mode in [0o770, 0o1777] {
            chmod(&dir, mode);
            let refused = private_folder(&dir).unwrap_err();
            assert!(matches!(&refused, NotOurs::Shared(why) if why.contains(&format!("{mode:04o}"))), "{refused:?}");
        }
        chmod(&dir, 0o700);
        // A link to a folder is the user's choice: what counts is where it leads.
        symlink(&dir, root.path().join("link")).unwrap();
        assert_eq!(private_folder(&root.path().join("link")).unwrap(), fs::canonicalize(&dir).unwrap());

        let file = create_new(&dir.join("f")).unwrap();
        assert!(private_folder(&dir.join("f")).is_err());
        assert!(check_ours(&file.metadata().unwrap()).is_ok());
        chmod(&dir.join("f"), 0o664);
        assert!(check_ours(&file.metadata().unwrap()).unwrap_err().contains("0664"));
        // Only root can give files away.
        if std::os::unix::fs::chown(dir.join("f"), Some(65_534), None).is_ok() {
            chmod(&dir.join("f"), 0o600);
            assert!(check_ours(&file.metadata().unwrap()).unwrap_err().contains("65534"));
        }
    }
}
