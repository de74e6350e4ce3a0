//! The container image: made without Docker, pushed to a registry, pulled from it, and run as a Pod runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::geteuid;
use serde_json::Value;
use tests::servers::manifests::{kind, objects};
use tests::servers::{Folder, Programs, Registry};

/// Starts a command in an image: read-only root, no network but loopback, what a Pod mounts, the user that is not root.
const RUN: &str = r#"
set -e
root=$1 state=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$state/programs" "$root/opt/stepgate"
mount --bind "$state/files" "$root/var/lib/stepgate/files"
mount --bind "$state/home" "$root/home/stepgate"
if [ "$AS_ROOT" = 1 ]; then set -- chroot --userspec=65532:65532 "$root" "$@"
else set -- unshare --user --map-user=65532 --map-group=65532 --root="$root" --wd=/tmp "$@"; fi
exec "$@"
"#;

/// The image as it was pulled, and the folders that are mounted in it.
struct Image {
    root: PathBuf,
    state: PathBuf,
    /// What its configuration says: environment and program.
    config: Value,
}

impl Image {
    /// Unpacks a layout.
    fn unpack(layout: &Path, folder: &Path) -> anyhow::Result<Self> {
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
            anyhow::Ok(layout.join("blobs/sha256").join(digest.context("a digest")?))
        };
        let read = |path: PathBuf| anyhow::Ok(serde_json::from_slice::<Value>(&std::fs::read(path)?)?);
        let index = read(layout.join("index.json"))?;
        let manifest = read(blob(&index["manifests"][0])?)?;
        let config = read(blob(&manifest["config"])?)?["config"].clone();
        let (root, state) = (folder.join("root"), folder.join("state"));
        for path in [&root, &state, &state.join("programs"), &state.join("files"), &state.join("home")] {
            std::fs::create_dir(path)?;
        }
        let layers = manifest["layers"].as_array().context("layers")?;
        ensure!(layers.len() == 3, "base, helm and stepgate: {layers:?}");
        for layer in layers {
            done(Command::new("tar").arg("-xzf").arg(blob(layer)?).arg("-C").arg(&root))?;
        }
        Ok(Self { root, state, config })
    }

    /// What a command in it prints.
    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let is_root = geteuid().is_root();
        let mut command = Command::new("unshare");
        command.args(if is_root { &[] } else { &["--user", "--map-root-user"][..] });
        command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", RUN, "sh"]);
        command
            .arg(&self.root)
            .arg(&self.state)
            .args(arguments)
            .env_clear()
            .env("AS_ROOT", u8::from(is_root).to_string());
        let host = std::env::var_os("PATH").unwrap_or_default();
        // Programs of this machine are found by the first, those of the image by the second.
        let path = [host.to_str().context("PATH")?, "/usr/local/bin:/usr/bin"].join(":");
        for line in self.config["Env"].as_array().context("Env")? {
            let (name, value) = line.as_str().and_then(|line| line.split_once('=')).context("NAME=VALUE")?;
            command.env(name, value);
        }
        done(command.env("PATH", path).env("HOME", "/home/stepgate"))
    }

    /// What the entry point prints for these arguments.
    fn stepgate(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let entry = self.config["Entrypoint"][0].as_str().context("Entrypoint")?;
        self.run(&[&[entry][..], arguments].concat())
    }

    /// Puts a repository with a fleet where the user's home is, as that user's.
    fn fleet(&self) -> anyhow::Result<()> {
        let home = self.state.join("home");
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fleets/machine-pools/before");
        done(Command::new("cp").arg("-r").arg(fixture).arg(home.join("fleet")))?;
        let fleet = home.join("fleet");
        let git = |arguments: &[&str]| done(Command::new("git").arg("-C").arg(&fleet).args(arguments));
        git(&["init", "--quiet", "--initial-branch", "main"])?;
        git(&["add", "."])?;
        git(&[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@corp.internal",
            "commit",
            "--quiet",
            "-m",
            "Describe the fleet",
        ])?;
        if geteuid().is_root() {
            done(Command::new("chown").args(["-R", "65532:65532"]).arg(&self.state))?;
        }
        Ok(())
    }
}

/// What a command prints when it succeeds.
fn done(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {} {said}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The script with what a test has built.
fn script(programs: &Programs) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../reconciler/install/image"));
    command.arg("--binary").arg(env!("CARGO_BIN_EXE_stepgate-in-tests")).arg("--helm").arg(programs.path("helm"));
    command
}

#[test]
fn the_image_is_reproducible_and_runs_from_a_registry_as_a_pod_runs_it() {
    let Some(programs) = Programs::find_or_skip(&["helm", "registry"]) else { return };
    if !skip::has_programs(&["skopeo", "apt-get", "dpkg-deb", "cargo"]) {
        return;
    }
    pushed_and_run(&programs).unwrap();
}

fn pushed_and_run(programs: &Programs) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let path = |name: &str| folder.path().join(name);
    let registry = Registry::start(programs, &path("registry"))?;
    let name = format!("{}/platform/stepgate:v7", registry.address());

    let pushed = done(script(programs).args(["--push", &name]).env("SSL_CERT_FILE", registry.authority()))?;
    let (reference, digest) = pushed.trim().split_once('@').context("a reference with its digest")?;
    ensure!(reference == name, "{pushed}");
    let again = done(script(programs).arg("--to").arg(path("layout")))?;
    ensure!(again.trim().ends_with(&format!("@{digest}")), "{again} is not the same as {pushed}");

    let pull = ["copy", "--quiet", "--preserve-digests"];
    let pulled = format!("oci:{}:pulled", path("pulled").display());
    let from = format!("docker://{}@{digest}", name.trim_end_matches(":v7"));
    done(Command::new("skopeo").args(pull).arg(from).arg(pulled).env("SSL_CERT_FILE", registry.authority()))?;
    let image = Image::unpack(&path("pulled"), folder.path())?;
    ensure!(image.config["User"] == "65532:65532", "{}", image.config);

    // Nothing is left in it that gives rights, and its bill of materials is there, and beside the layout.
    let strange =
        done(Command::new("find").arg(&image.root).args(["-perm", "/6000", "-o", "-type", "f", "!", "-perm", "-444"]))?;
    ensure!(strange.is_empty(), "{strange}");
    let listed = std::fs::read(image.root.join("usr/share/doc/stepgate/sbom.cdx.json"))?;
    ensure!(listed == std::fs::read(path("layout.sbom.cdx.json"))?, "two bills of materials");
    let listed: Value = serde_json::from_slice(&listed)?;
    let crates: Vec<&str> =
        listed["components"].as_array().context("components")?.iter().filter_map(|one| one["name"].as_str()).collect();
    ensure!(["rollout", "libgit2-sys", "rustls"].iter().all(|name| crates.contains(name)), "{crates:?}");
    ensure!(!crates.contains(&"insta"), "what only tests need is not in the program");

    image.fleet()?;
    ensure!(image.stepgate(&["--version"])?.starts_with("stepgate "));
    ensure!(image.run(&["/usr/bin/git", "--version"])?.starts_with("git version "));
    ensure!(image.run(&["/usr/local/bin/helm", "version", "--short"])?.starts_with('v'));
    ensure!(image.run(&["/bin/sh", "-c", "id -u 2>/dev/null || cat /proc/self/status"])?.contains("65532"));
    ensure!(image.run(&["/bin/sh", "-c", "echo > /written"]).is_err(), "the root can be written");
    for repository in ["/home/stepgate/fleet", "file:///home/stepgate/fleet"] {
        let checked = image.stepgate(&["check", "--repo", repository])?;
        ensure!(checked.contains("1 clusters, 0 bundles, 0 errors"), "{checked}");
    }

    // What is installed is this image, and its first container finds there what it calls.
    let repository = ["--repo", "https://git.corp.internal/fleet.git"];
    let exported = image.stepgate(&[&["install", "--export", "--image", pushed.trim()], &repository[..]].concat())?;
    let manifests = objects(&exported)?;
    let deployment = manifests.iter().find(|object| kind(object) == "Deployment").context("a Deployment")?;
    let pod = &deployment["spec"]["template"]["spec"];
    for container in [&pod["containers"][0], &pod["initContainers"][0]] {
        ensure!(container["image"] == pushed.trim(), "{container}");
    }
    ensure!(format!("{0}:{0}", pod["securityContext"]["runAsUser"]) == "65532:65532", "{pod}");
    let first = pod["initContainers"][0]["command"].as_array().context("command")?;
    image.run(&first.iter().filter_map(Value::as_str).collect::<Vec<&str>>())?;
    let version = image.run(&["/opt/stepgate/helm", "version", "--short"])?;
    ensure!(version == image.run(&["/usr/local/bin/helm", "version", "--short"])?, "{version}");
    folder.done();
    Ok(())
}

#[test]
fn what_cannot_become_an_image_is_refused_with_help() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "#!/bin/sh\n").unwrap();
    let text = folder.path().join("text");
    let text = text.to_str().unwrap();
    let to = folder.path().join("layout");
    let to = to.to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_stepgate-in-tests");
    for (arguments, said) in [
        (&[][..], "nowhere to put the image"),
        (&["--to"], "--to has no value"),
        (&["--into", to], "--into is not a valid argument"),
        (&["--to", folder.path().to_str().unwrap()], "is not empty"),
        (&["--to", to, "--platform", "linux/s390x"], "linux/s390x is not a platform"),
        (&["--to", to, "--binary", text, "--helm", program], "is not a program for linux/"),
        (&["--to", to, "--binary", "/nowhere", "--helm", program], "/nowhere is not a file"),
        (&["--push", "stepgate:v1"], "stepgate:v1 is not a valid place in a registry"),
        (&["--push", "registry.corp.internal/stepgate"], "name it as REGISTRY/REPO:TAG"),
    ] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reconciler/install/image");
        let output = Command::new(script).args(arguments).output().unwrap();
        let (told, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert_eq!((output.status.code(), &*printed), (Some(2), ""), "{arguments:?}: {told}");
        assert!(told.contains(said) && told.contains("\n  help: "), "{arguments:?}: {told}");
        assert!(!Path::new(to).exists());
    }
}
