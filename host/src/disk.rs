//! The machine's file system. Errors keep the kind that the operating system gave and say what was done to which path.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidemill_core::Kind;
use tidemill_core::disk::{Disk, DiskFile, DiskReader};

/// The mode of sealed files.
const READ_ONLY: u32 = 0o444;

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // A new file each time: `O_EXCL` neither follows a link nor opens what is there.
        let file = match File::create_new(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::remove_file(path).and_then(|()| File::create_new(path)),
            created => created,
        };
        let file = file.map_err(|error| about("create", path, &error))?;
        Ok(Box::new(OpenFile { file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(regular(path).map_err(|error| about("read", path, &error))?))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let read = || {
            let mut bytes = Vec::new();
            regular(path)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| about("read", path, &error))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        let length = fs::metadata(path).and_then(|metadata| if metadata.is_file() { Ok(metadata.len()) } else { Err(irregular()) });
        length.map_err(|error| about("look at", path, &error))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to).map_err(|error| about("link", from, &error))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path).map_err(|error| about("find", path, &error))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(|error| about(&format!("rename `{}` to", from.display()), to, &error))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_file(path)).map_err(|error| about("remove", path, &error))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_dir_all(path)).map_err(|error| about("remove the folder", path, &error))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            result => result.map_err(|error| about("list the folder", dir, &error))?,
        };
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| about("list the folder", dir, &error))?;
        paths.sort();
        Ok(paths)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = parent_of(dir);
        self.create_dir(parent)?;
        match fs::create_dir(dir) {
            // Another process was faster, or something else has the name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let text = format!("cannot create the folder `{}`: a file of this name exists", dir.display());
                return Err(io::Error::new(ErrorKind::NotADirectory, text));
            }
            result => result.map_err(|error| about("create the folder", dir, &error))?,
        }
        self.sync_dir(parent)
    }

    fn create_local_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir).map_err(|error| about("create the folder", dir, &error))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir).and_then(|folder| folder.sync_all()).map_err(|error| about("sync the folder", dir, &error))
    }
}

/// Opens a file for reading, if it is one: a savepoint from elsewhere may hold links to devices, which never end, and pipes, whose opening
/// waits for a writer.
fn regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(irregular());
    }
    let file = File::open(path)?;
    // It may have been replaced since.
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

fn irregular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// Who must act on an error of the operating system: the user if the path is not what it should be, else as `otherwise` says, since a disk
/// or a process that is short of something may have it again later.
pub(crate) fn kind_of(error: &io::Error, otherwise: Kind) -> Kind {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => Kind::Config,
        _ => otherwise,
    }
}

/// A file of [`RealDisk`] that is being written.
struct OpenFile {
    file: File,
    path: PathBuf,
}

impl DiskFile for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).map_err(|error| about("write", &self.path, &error))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all().map_err(|error| about("sync", &self.path, &error))
    }

    fn seal(&mut self) -> io::Result<()> {
        let read_only = fs::Permissions::from_mode(READ_ONLY);
        self.file.set_permissions(read_only).map_err(|error| about("make read-only", &self.path, &error))
    }
}

/// The folder of a path; that of a bare name is the working directory.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn about(action: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::fs::MetadataExt;

    use tidemill_core::disk::Disk;

    use super::RealDisk;

    #[test]
    fn files_and_folders_come_and_go() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b/c");
        RealDisk.create_dir(&dir).unwrap();
        RealDisk.create_dir(&dir).unwrap();
        let mut file = RealDisk.create(&dir.join("two")).unwrap();
        file.write(b"hello ").unwrap();
        file.write(b"world").unwrap();
        file.sync().unwrap();
        RealDisk.create(&dir.join("one")).unwrap();
        RealDisk.sync_dir(&dir).unwrap();
        assert_eq!(RealDisk.list(&dir).unwrap(), [dir.join("one"), dir.join("two")]);
        RealDisk.rename(&dir.join("two"), &dir.join("three")).unwrap();
        assert_eq!(RealDisk.read(&dir.join("three")).unwrap(), b"hello world");
        let mut parts = Vec::new();
        RealDisk.link(&dir.join("three"), &dir.join("four")).unwrap();
        let keep = |part: &[u8]| {
            parts.extend_from_slice(part);
            Ok(())
        };
        RealDisk.read_parts(&dir.join("four"), &mut { keep }).unwrap();
        assert_eq!(parts, b"hello world");
        RealDisk.remove(&dir.join("three")).unwrap();
        RealDisk.remove(&dir.join("three")).unwrap();
        RealDisk.remove_dir(&dir).unwrap();
        RealDisk.remove_dir(&dir).unwrap();
        assert!(RealDisk.list(&dir).unwrap().is_empty());
    }

    #[test]
    fn a_name_that_is_taken_keeps_its_content_under_its_other_names() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let mut stored = RealDisk.create(&path("stored")).unwrap();
        stored.write(b"state").unwrap();
        stored.seal().unwrap();
        stored.sync().unwrap();
        assert_eq!(std::fs::metadata(path("stored")).unwrap().mode() & 0o777, 0o444);
        RealDisk.link(&path("stored"), &path("linked")).unwrap();
        std::os::unix::fs::symlink(path("stored"), path("symlink")).unwrap();
        for name in ["linked", "symlink"] {
            RealDisk.create(&path(name)).unwrap().write(b"other").unwrap();
            assert_eq!(RealDisk.read(&path(name)).unwrap(), b"other");
            assert_eq!(RealDisk.read(&path("stored")).unwrap(), b"state");
        }
        assert_eq!(RealDisk.link(&path("stored"), &path("linked")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(RealDisk.create(root.path()).is_err(), "a folder is not taken away");
    }

    #[test]
    fn errors_keep_the_kind_and_name_the_path() {
        let root = tempfile::tempdir().unwrap();
        let absent = root.path().join("absent");
        let error = RealDisk.read(&absent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(&format!("cannot read `{}`", absent.display())), "{error}");
        let error = RealDisk.rename(&absent, &root.path().join("to")).unwrap_err();
        assert!(error.to_string().contains("absent") && error.to_string().contains("/to`"), "{error}");

        let file = root.path().join("file");
        RealDisk.create(&file).unwrap();
        let error = RealDisk.create_dir(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        let error = RealDisk.create_dir(&file.join("below")).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
        assert!(RealDisk.list(&file).is_err());
    }
}
