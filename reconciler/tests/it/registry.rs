//! Charts from a real registry on loopback, with TLS and with each kind of login, into a mirror and a lock.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::Run;

/// The registry program of `tests/servers/registry`, and helm.
struct Programs {
    registry: PathBuf,
    helm: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        Some(Self { registry: skip::named_by("STEPGATE_REGISTRY")?, helm: skip::named_by("STEPGATE_HELM")? })
    }
}

/// A running registry over a folder; it ends when this does.
struct Registry {
    process: Child,
    address: String,
    /// Of the token server, in the mode `token`.
    token_server: String,
}

impl Registry {
    fn start(programs: &Programs, folder: &Path, mode: &str) -> Self {
        let mut command = Command::new(&programs.registry);
        command.arg(folder).arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.next().expect("the registry prints its address");
        let token_server = if mode == "token" { lines.next().unwrap() } else { String::new() };
        Self { process, address, token_server }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A folder for a registry, a bundle that names one chart of it, and mirrors.
struct Scene {
    programs: Programs,
    folder: TempDir,
}

impl Scene {
    fn new() -> Option<Self> {
        Some(Self { programs: Programs::find()?, folder: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self, mode: &str) -> Registry {
        Registry::start(&self.programs, &self.path("registry"), mode)
    }

    fn helm(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.programs.helm);
        for variable in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.path("helm"));
        }
        let output = command.args(arguments).current_dir(self.folder.path()).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}");
        text
    }

    /// Packs the fixture's chart with an own line in it; returns the archive.
    fn pack(&self, remark: &str) -> PathBuf {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/charts/cilium");
        let source = self.path("source");
        std::fs::create_dir_all(source.join("templates")).unwrap();
        for file in ["Chart.yaml", "values.yaml", "templates/agent.yaml"] {
            std::fs::copy(fixture.join(file), source.join(file)).unwrap();
        }
        std::fs::write(source.join("README.md"), remark).unwrap();
        self.helm(&["package", "source"]);
        self.path("cilium-1.0.0.tgz")
    }

    /// Pushes an archive to `repository/cilium`; returns the digest of its manifest.
    fn push(&self, registry: &Registry, archive: &Path, repository: &str) -> String {
        let authority = self.path("registry/ca.pem");
        let target = format!("oci://{}/{repository}", registry.address);
        let text = self.helm(&["push", archive.to_str().unwrap(), &target, "--ca-file", authority.to_str().unwrap()]);
        text.lines().find_map(|line| line.strip_prefix("Digest: ")).unwrap().to_owned()
    }

    /// Writes a bundle that names `chart` and nothing else.
    fn bundle(&self, chart: &str, digest: Option<&str>) {
        let digest = digest.map(|digest| format!("\n        imageDigest: {digest}")).unwrap_or_default();
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata:\n  name: bundles-1\nspec:\n  number: 1\n  \
             versionsBundles:\n  - kubeVersion: \"1.33\"\n    cilium:\n      version: v1.0.0\n      helmChart:\n        name: \
             chart\n        uri: {chart}{digest}\n"
        );
        std::fs::write(self.path("bundle.yaml"), text).unwrap();
    }

    /// `stepgate bundle fetch` into the folder `mirror`, allowed to ask `hosts` on loopback.
    fn fetch(&self, mirror: &str, hosts: &[&str], more: &[&str]) -> Run {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stepgate"));
        command.env_remove("STEPGATE_MIRROR").env_remove("STEPGATE_PRIVATE_HOSTS");
        command.env("SSL_CERT_FILE", self.path("registry/ca.pem"));
        command.env("DOCKER_CONFIG", self.path("docker")).current_dir(self.folder.path());
        command.args(["bundle", "fetch", "bundle.yaml", "-o", "json", "--to", mirror, "--private-host", "127.0.0.1"]);
        hosts.iter().for_each(|host| {
            command.args(["--allow", host]);
        });
        let output = command.args(more).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn log_in(&self, host: &str, login: &str) {
        std::fs::create_dir_all(self.path("docker")).unwrap();
        std::fs::write(self.path("docker/config.json"), format!(r#"{{"auths": {{"{host}": {login}}}}}"#)).unwrap();
    }

    fn mirrored(&self, mirror: &str, registry: &Registry, repository: &str) -> PathBuf {
        self.path(mirror).join(&registry.address).join(repository).join("cilium/1.0.0.tgz")
    }
}

/// `reader:open sesame`.
const PASSWORD: &str = r#"{"auth": "cmVhZGVyOm9wZW4gc2VzYW1l"}"#;

/// State and message of the one thing that was fetched.
fn outcome(run: &Run) -> (String, String) {
    let report: Value = run.json();
    let manifests = report["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 1, "{report}");
    let text = |key: &str| manifests[0][key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("message"))
}

fn check(run: &Run, code: i32, state: &str, part: &str) {
    let (found, message) = outcome(run);
    assert_eq!((run.code, found.as_str()), (code, state), "{message}\n{}", run.stderr);
    assert!(message.contains(part), "{message}");
}

#[test]
fn a_pushed_chart_fills_mirror_and_lock_and_is_not_downloaded_twice() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve("open");
    let archive = scene.pack("first");
    let digest = scene.push(&registry, &archive, "eks");
    let chart = format!("{}/eks/cilium:1.0.0", registry.address);
    scene.bundle(&chart, Some(&digest));

    check(&scene.fetch("mirror", &["other.example.org"], &[]), 2, "refused", "not on the allow-list");
    check(&scene.fetch("mirror", &[&registry.address], &[]), 0, "fetched", "");
    let mirrored = scene.mirrored("mirror", &registry, "eks");
    let bytes = std::fs::read(&archive).unwrap();
    assert_eq!(std::fs::read(&mirrored).unwrap(), bytes);
    let lock = std::fs::read_to_string(scene.path("bundles.lock")).unwrap();
    let line = format!("{}  oci://{chart}", bundles::Digest::of(&bytes));
    assert_eq!(lock.lines().last(), Some(line.as_str()));

    // Nobody could be asked any more.
    let address = registry.address.clone();
    drop(registry);
    check(&scene.fetch("mirror", &[&address], &[]), 0, "present", "");
    assert_eq!(std::fs::read_to_string(scene.path("bundles.lock")).unwrap(), lock);
    assert_eq!(scene.fetch("elsewhere", &[&address], &[]).code, 2);
}

#[test]
fn content_that_is_not_what_was_named_is_refused() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve("open");
    let first = scene.push(&registry, &scene.pack("first"), "eks");
    let chart = format!("{}/eks/cilium:1.0.0", registry.address);
    scene.bundle(&chart, None);
    check(&scene.fetch("mirror", &[&registry.address], &[]), 0, "fetched", "");
    let lock = std::fs::read_to_string(scene.path("bundles.lock")).unwrap();

    // Somebody pushes another chart under the same tag.
    let archive = scene.pack("second");
    let second = scene.push(&registry, &archive, "eks");
    assert_ne!(first, second);
    check(&scene.fetch("moved", &[&registry.address], &[]), 2, "refused", "which the lock names");
    assert!(!scene.path("moved").join(&registry.address).exists());
    assert_eq!(std::fs::read_to_string(scene.path("bundles.lock")).unwrap(), lock);
    // A digest in the bundle finds what it means, whatever the tag says now.
    scene.bundle(&chart, Some(&first));
    check(&scene.fetch("pinned", &[&registry.address], &[]), 0, "fetched", "");
    scene.bundle(&chart, Some(&format!("sha256:{}", "0".repeat(64))));
    check(&scene.fetch("unknown", &[&registry.address], &[]), 2, "missing", "the registry says 404");
    // The other content is taken when it is wanted.
    scene.bundle(&chart, None);
    check(&scene.fetch("mirror", &[&registry.address], &["--update"]), 0, "fetched", "");
    assert_ne!(std::fs::read_to_string(scene.path("bundles.lock")).unwrap(), lock);

    // The blob changes where the registry keeps it.
    let blob = bundles::Digest::of(&std::fs::read(&archive).unwrap()).to_string();
    let hex = blob.strip_prefix("sha256:").unwrap();
    let stored = scene.path("registry/data/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data");
    let mut bytes = std::fs::read(&stored).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&stored, bytes).unwrap();
    check(&scene.fetch("changed", &[&registry.address], &[]), 2, "refused", &blob);
    assert!(!scene.path("changed").join(&registry.address).exists());
}

#[test]
fn a_registry_with_passwords_is_shown_the_one_for_its_host() {
    let Some(scene) = Scene::new() else { return };
    let archive = scene.pack("first");
    let digest = scene.push(&scene.serve("open"), &archive, "eks");
    let registry = scene.serve("password");
    scene.bundle(&format!("{}/eks/cilium:1.0.0", registry.address), Some(&digest));
    let fetch = |mirror: &str| scene.fetch(mirror, &[&registry.address], &[]);
    check(&fetch("mirror"), 2, "refused", &format!("`docker login {}`", registry.address));
    scene.log_in("registry.example.org", PASSWORD);
    check(&fetch("mirror"), 2, "refused", "log in");
    scene.log_in(&registry.address, r#"{"username": "reader", "password": "wrong"}"#);
    let wrong = fetch("mirror");
    check(&wrong, 2, "refused", "401");
    assert!(!wrong.text().contains("wrong"), "{}", wrong.text());
    scene.log_in(&registry.address, PASSWORD);
    check(&fetch("mirror"), 0, "fetched", "");
    assert_eq!(std::fs::read(scene.mirrored("mirror", &registry, "eks")).unwrap(), std::fs::read(archive).unwrap());
}

#[test]
fn a_registry_with_a_token_server_is_shown_its_token() {
    let Some(scene) = Scene::new() else { return };
    let archive = scene.pack("first");
    let open = scene.serve("open");
    for repository in ["public", "eks"] {
        scene.push(&open, &archive, repository);
    }
    drop(open);
    let registry = scene.serve("token");
    let both = [registry.address.as_str(), registry.token_server.as_str()];
    let fetch = |mirror: &str, hosts: &[&str]| scene.fetch(mirror, hosts, &[]);
    scene.bundle(&format!("{}/public/cilium:1.0.0", registry.address), None);
    // The token server is asked only where that is allowed.
    check(&fetch("refused", &[&registry.address]), 2, "refused", &registry.token_server);
    check(&fetch("public", &both), 0, "fetched", "");
    std::fs::remove_file(scene.path("bundles.lock")).unwrap();
    scene.bundle(&format!("{}/eks/cilium:1.0.0", registry.address), None);
    check(&fetch("anonymous", &both), 2, "refused", "log in");
    for (mirror, login) in [("password", PASSWORD), ("identity", r#"{"identitytoken": "lasting"}"#)] {
        scene.log_in(&registry.address, login);
        check(&fetch(mirror, &both), 0, "fetched", "");
        assert_eq!(std::fs::read(scene.mirrored(mirror, &registry, "eks")).unwrap(), std::fs::read(&archive).unwrap());
    }
    scene.log_in(&registry.address, r#"{"identitytoken": "ended"}"#);
    check(&fetch("ended", &both), 2, "refused", "log in");
}

/// A fleet repository with one workload cluster on Cilium, its chart in a registry.
fn fleet(scene: &Scene, registry: &Registry, digest: &str, lock: &str) {
    let place = scene.path("fleet.git");
    let _ = std::fs::remove_dir_all(&place);
    let repository = git2::Repository::init_bare(place).unwrap();
    let image =
        |name: &str| format!("{{name: i, uri: 'r.example.org/{name}:v1.0.0', imageDigest: sha256:{}}}", "1".repeat(64));
    let bundle = format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {{name: bundles-1}}\nspec:\n  number: 1\n  \
         versionsBundles:\n  - kubeVersion: \"1.33\"\n    cilium:\n      version: v1.0.0\n      cilium: {}\n      operator: {}\n      \
         helmChart: {{name: c, uri: '{}/eks/cilium:1.0.0', imageDigest: {digest}}}\n",
        image("cilium"),
        image("operator-generic"),
        registry.address,
    );
    let cluster = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {kubernetesVersion: \
                   \"1.33\", managementCluster: {name: m}, clusterNetwork: {cniConfig: {cilium: {}}}}\n";
    let policy = format!("fetch:\n  allow: [\"{}\"]\n", registry.address);
    let mut tree = git2::build::TreeUpdateBuilder::new();
    for (path, text) in [
        ("stepgate.yaml", policy.as_str()),
        ("bundles/1.yaml", &bundle),
        ("clusters/a.yaml", cluster),
        ("bundles.lock", lock),
    ] {
        tree.upsert(path, repository.blob(text.as_bytes()).unwrap(), git2::FileMode::Blob);
    }
    let empty = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let tree = repository.find_tree(tree.create_updated(&repository, &empty).unwrap()).unwrap();
    let person = git2::Signature::now("A Person", "person@example.com").unwrap();
    repository.commit(Some("refs/heads/main"), &person, &person, "Begin", &tree, &[]).unwrap();
}

#[test]
fn a_chart_of_a_registry_is_rendered_without_a_mirror() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve("open");
    let archive = scene.pack("first");
    let digest = scene.push(&registry, &archive, "eks");
    let render = |more: &[&str]| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stepgate"));
        command.env_remove("STEPGATE_MIRROR").env_remove("STEPGATE_PRIVATE_HOSTS");
        command.env("SSL_CERT_FILE", scene.path("registry/ca.pem")).env("DOCKER_CONFIG", scene.path("docker"));
        command.args(["render", "--cluster", "a", "--component", "cilium", "--repo"]).arg(scene.path("fleet.git"));
        let output = command.args(more).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    fleet(&scene, &registry, &digest, "");
    let run = render(&["--private-host", "127.0.0.1"]);
    let image = format!("image: r.example.org/cilium:v1.0.0@sha256:{}", "1".repeat(64));
    assert!(run.code == 0 && run.stdout.contains(&image), "{}", run.text());
    // Who writes to the fleet repository cannot choose what is asked on loopback.
    let run = render(&[]);
    assert!(run.code == 2 && run.text().contains("127.0.0.1 is a loopback"), "{}", run.text());
    let lock = format!("{}  oci://{}/eks/cilium:1.0.0\n", bundles::Digest::of(b"another chart"), registry.address);
    fleet(&scene, &registry, &digest, &lock);
    let run = render(&["--private-host", "127.0.0.1"]);
    assert!(run.code == 2 && run.text().contains("but bundles.lock says"), "{}", run.text());
}

/// Cilium's published chart, where it is present.
#[test]
fn the_published_chart_comes_back_as_it_was_pushed() {
    let Some(scene) = Scene::new() else { return };
    let place = "data/mirror/public.ecr.aws/eks/cilium/cilium/1.19.4-1.tgz";
    let Some(archive) = skip::shared(place) else { return };
    let registry = scene.serve("open");
    let digest = scene.push(&registry, &archive, "eks/cilium");
    scene.bundle(&format!("{}/eks/cilium/cilium:1.19.4", registry.address), Some(&digest));
    check(&scene.fetch("mirror", &[&registry.address], &[]), 0, "fetched", "");
    let mirrored = scene.path("mirror").join(&registry.address).join("eks/cilium/cilium/1.19.4.tgz");
    assert_eq!(std::fs::read(mirrored).unwrap(), std::fs::read(archive).unwrap());
}

#[test]
fn images_of_the_node_upgrader_are_pushed_with_the_release_as_tag() {
    use crate::upgrader;
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve("open");
    let release = upgrader::Scene::new(&upgrader::Parts::default());
    let repository = format!("{}/stepgate/node-upgrader", registry.address);
    let push = |more: &[&str]| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stepgate"));
        command.env_remove("STEPGATE_MIRROR").env_remove("STEPGATE_PRIVATE_HOSTS");
        command.env("SSL_CERT_FILE", scene.path("registry/ca.pem")).env("DOCKER_CONFIG", scene.path("docker"));
        command.args(["upgrader", "build", "-o", "json", "--release", upgrader::RELEASE, "--push", &repository]);
        command.arg("--bundle").arg(&release.bundle).arg("--mirror").arg(&release.mirror);
        let output = command.arg("--program").arg(&release.program).args(more).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let run = push(&["--private-host", "127.0.0.1"]);
    assert_eq!(run.code, 0, "{}", run.text());
    let digest = run.json()["images"][0]["digest"].as_str().unwrap().to_owned();
    let image = format!("{repository}:{}@{digest}", upgrader::RELEASE);
    assert_eq!(run.json()["images"][0]["image"], image.as_str());
    // What is there already is sent no more, and stays the same.
    assert_eq!(push(&["--private-host", "127.0.0.1"]).json(), run.json());
    let run = push(&[]);
    assert!(run.code == 2 && run.text().contains("127.0.0.1 is a loopback"), "{}", run.text());
}
