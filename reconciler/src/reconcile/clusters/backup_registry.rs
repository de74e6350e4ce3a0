//! Backups in a registry: one artifact each, with the rollout as its tag.
//!
//! `oci://HOST/PATH/<cluster>:<rollout>` is an OCI manifest of the artifact type below. Its
//! configuration is `backup.json`, and each of its layers a file of the backup, titled by its name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use cluster::kubernetes::{BackupHeader, BackupRegistry};
use fetch::{AllowList, Artifact, FetchOptions, Registry};

/// The type of the artifact.
const ARTIFACT_TYPE: &str = "application/vnd.stepgate.backup.v2";

/// The type of its configuration.
const HEADER_TYPE: &str = "application/vnd.stepgate.backup.header.v2+json";

/// The type of a file of objects.
const OBJECTS_TYPE: &str = "application/vnd.stepgate.backup.objects.v2+json";

/// The same, encrypted.
const ENCRYPTED_TYPE: &str = "application/vnd.stepgate.backup.objects.v2+json+age";

/// The type of the artifact that holds a dump, of its configuration, and of the dump itself.
const DUMP_TYPE: &str = "application/vnd.stepgate.dump.v1";
const DUMP_CONFIGURATION_TYPE: &str = "application/vnd.stepgate.dump.configuration.v1+json";
const DUMP_FILE_TYPE: &str = "application/vnd.stepgate.dump.file.v1+json";

/// The dump as a file.
const DUMP: &str = "dump.json";

/// The configuration as a file.
const HEADER: &str = "backup.json";

/// The largest backup, in bytes.
const LARGEST: u64 = 512 << 20;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Where backups go: `oci://HOST/PATH`, as the operator gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryFolder(String);

impl FromStr for RegistryFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.strip_prefix("oci://").map(|plain| plain.trim_end_matches('/'));
        let is_place = |plain: &&str| {
            plain.split_once('/').is_some_and(|(host, path)| {
                !host.is_empty() && !path.is_empty() && !path.contains([':', '@', ' ']) && !plain.contains("//")
            })
        };
        let place = plain.filter(is_place).map(|plain| Self(plain.to_owned()));
        place.ok_or_else(|| format!("{text:?} is not a valid folder of a registry, such as oci://HOST/PATH"))
    }
}

/// A registry, asked by this process.
#[derive(Debug)]
pub struct RegistryBackups {
    folder: String,
    registry: Registry,
}

impl fmt::Display for RegistryBackups {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "oci://{}", self.folder)
    }
}

impl RegistryBackups {
    /// The folder of the operator. Its host may have a private address only where `private_hosts` name it.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn of(folder: &RegistryFolder, private_hosts: &[String]) -> Result<Self, String> {
        let options = FetchOptions {
            allow: AllowList::new(std::slice::from_ref(&folder.0)),
            private_hosts: private_hosts.to_vec(),
            maximum_bytes: LARGEST,
            timeout: TIMEOUT,
        };
        let registry = Registry::new(options).map_err(|error| error.to_string())?;
        Ok(Self { folder: folder.0.clone(), registry })
    }

    /// The registry that an address (`oci://HOST/PATH:TAG`) is of.
    ///
    /// # Errors
    /// When it is not a valid address, or TLS cannot be set up.
    pub fn of_address(address: &str, private_hosts: &[String]) -> Result<Self, String> {
        let repository = address.split_once('@').map_or(address, |(plain, _)| plain);
        let folder = repository.rsplit_once('/').map_or(repository, |(folder, _)| folder);
        Self::of(&folder.parse()?, private_hosts)
    }
}

impl RegistryBackups {
    /// Where the dump of this digest lies: a tag may not be longer than 128 characters, and has no colon.
    fn dump_address(&self, cluster: &str, digest: &str) -> String {
        let plain: String = digest.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("oci://{}/{cluster}:dump-{plain}", self.folder)
    }
}

impl BackupRegistry for RegistryBackups {
    fn push(&self, header: &BackupHeader, files: &BTreeMap<String, Vec<u8>>) -> Result<String, String> {
        let cluster = header.cluster.as_ref().map(|cluster| cluster.name.as_str()).unwrap_or_default();
        let address = format!("oci://{}/{cluster}:{}", self.folder, header.report.rollout);
        let media_type = if header.recipients.is_empty() { OBJECTS_TYPE } else { ENCRYPTED_TYPE };
        let config = files.get(HEADER).cloned().unwrap_or_default();
        let layers = files.iter().filter(|(name, _)| *name != HEADER);
        let layers = layers.map(|(name, bytes)| (name.clone(), (media_type.to_owned(), bytes.clone())));
        let artifact = Artifact {
            artifact_type: ARTIFACT_TYPE.to_owned(),
            config: (HEADER_TYPE.to_owned(), config),
            layers: layers.collect(),
        };
        let digest = self.registry.push(&address, &artifact).map_err(|error| error.to_string())?;
        Ok(format!("{address}@{digest}"))
    }

    fn pull(&self, address: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let artifact = self.registry.pull_artifact(address, ARTIFACT_TYPE).map_err(|error| error.to_string())?;
        let mut files: BTreeMap<String, Vec<u8>> =
            artifact.layers.into_iter().map(|(name, (_, bytes))| (name, bytes)).collect();
        files.insert(HEADER.to_owned(), artifact.config.1);
        Ok(files)
    }

    fn push_dump(&self, cluster: &str, digest: &str, bytes: &[u8]) -> Result<String, String> {
        let address = self.dump_address(cluster, digest);
        let artifact = Artifact {
            artifact_type: DUMP_TYPE.to_owned(),
            config: (DUMP_CONFIGURATION_TYPE.to_owned(), format!("{{\"digest\":\"{digest}\"}}").into_bytes()),
            layers: BTreeMap::from([(DUMP.to_owned(), (DUMP_FILE_TYPE.to_owned(), bytes.to_vec()))]),
        };
        let pushed = self.registry.push(&address, &artifact).map_err(|error| error.to_string())?;
        Ok(format!("{address}@{pushed}"))
    }

    fn pull_dump(&self, cluster: &str, digest: &str) -> Result<Vec<u8>, String> {
        let address = self.dump_address(cluster, digest);
        let artifact = self.registry.pull_artifact(&address, DUMP_TYPE).map_err(|error| error.to_string())?;
        let mut layers = artifact.layers;
        layers.remove(DUMP).map(|(_, bytes)| bytes).ok_or_else(|| format!("{address} holds no {DUMP}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_registry_has_a_host_and_a_path() {
        let folder = |text: &str| text.parse::<RegistryFolder>().map(|folder| folder.0);
        assert_eq!(folder("oci://registry.example:5000/ops/backups/").unwrap(), "registry.example:5000/ops/backups");
        for text in ["registry.example/backups", "oci://registry.example", "oci://registry.example/a:b", "oci:///a"] {
            assert!(folder(text).unwrap_err().contains("is not a valid folder of a registry"), "{text}");
        }
    }
}
