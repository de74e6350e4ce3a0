//! Bundles that are truly signed, as EKS Anywhere signs them, by a key of whoever publishes them; and forged ones.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use tests::servers::{Gitea, isolated};
use yaml::Node;

use super::{BUNDLE, LONG_AGO, Releases, owned, states, text};

/// What EKS Anywhere leaves out of a versionsBundle before it signs (`pkg/constants/constants.go`, from 2025-11-19 on).
const LEFT_OUT: [&str; 21] = [
    "bootstrap",
    "bottlerocketBootstrapContainers",
    "bottlerocketHostContainers",
    "certManager",
    "cilium",
    "cloudStack",
    "clusterAPI",
    "controlPlane",
    "docker",
    "eksa",
    "etcdadmBootstrap",
    "etcdadmController",
    "flux",
    "haproxy",
    "kindnetd",
    "nutanix",
    "packageController",
    "snow",
    "tinkerbell",
    "upgrader",
    "vSphere",
];

/// Whoever publishes bundles, with a key of their own.
struct Publisher(KeyPair);

impl Publisher {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(KeyPair::generate()?))
    }

    /// ECDSA on P-256 over a text, in base64.
    fn signature(&self, text: &str) -> anyhow::Result<String> {
        let key = PrivateKeyDer::try_from(self.0.serialize_der()).map_err(anyhow::Error::msg)?;
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&key)?;
        let signer = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
        let signer = signer.ok_or_else(|| anyhow::anyhow!("a key of another kind"))?;
        Ok(STANDARD.encode(signer.sign(text.as_bytes())?))
    }

    /// Bundles with the signatures of the object, and of the EKS-D releases that it names.
    fn sign(&self, bundle: &str) -> anyhow::Result<String> {
        let [node] = overlays::objects_of(bundle.as_bytes()).try_into().map_err(|_| anyhow::anyhow!("one object"))?;
        let is_signed = |path: &[&str], key: &str| match path {
            [] => key != "status",
            ["metadata"] => key == "name",
            ["spec", "versionsBundles"] => !LEFT_OUT.contains(&key),
            ["spec", "versionsBundles", "eksD"] => !matches!(key, "components" | "manifestUrl"),
            _ => true,
        };
        let own = self.signature(&yaml::json::to_json_with(&node, &is_signed))?;
        let mut annotations = format!("  annotations:\n    anywhere.eks.amazonaws.com/signature: {own}\n");
        let versions = node.at(&["spec", "versionsBundles"]).and_then(Node::as_sequence).unwrap_or_default();
        for release in versions.iter().filter_map(|version| version.get("eksD")) {
            let said = |key: &str| release.get(key).and_then(Node::as_str).unwrap_or_default().to_owned();
            let (name, channel) = (said("name"), said("channel"));
            let number = name.rsplit('-').next().unwrap_or_default();
            let signed = format!(
                r#"{{"apiVersion":"distro.eks.amazonaws.com/v1alpha1","kind":"Release","metadata":{{"name":"{name}"}},"spec":{{"channel":"{channel}","number":{number}}}}}"#
            );
            let signature = self.signature(&signed)?;
            annotations.push_str(&format!("    distro.eks.amazonaws.com/signature-{channel}: {signature}\n"));
        }
        Ok(bundle.replacen("metadata:\n", &format!("metadata:\n{annotations}"), 1))
    }
}

#[test]
fn a_bundle_that_is_truly_signed_is_proposed_and_a_forged_one_is_not() {
    const NAME: &str = "forge::updates::signed::a_bundle_that_is_truly_signed_is_proposed_and_a_forged_one_is_not";
    isolated(NAME, Gitea::NEEDED, async |programs| {
        let releases = Releases::start(&programs, "signatures: require\n").await?;
        let (ours, others) = (Publisher::new()?, Publisher::new()?);
        let keys = releases.folder.path().join("keys.pem");
        std::fs::write(&keys, ours.0.public_key_pem())?;
        let host = releases.host.host();
        let named = ["--update-host", host.as_str(), "--yes", "--bundle-keys", keys.to_str().unwrap_or_default()];
        let publish = |bundle: String| {
            releases.publish(&[("v0.24.0", 80, LONG_AGO), ("v0.25.0", 81, LONG_AGO)]);
            releases.host.publish("releases/bundles/81/manifest.yaml", bundle);
        };
        let refused = async |bundle: String, arguments: &[&str]| -> anyhow::Result<()> {
            publish(bundle);
            let (exit, updates) = releases.bump(arguments).await?;
            assert_eq!((exit, text(&updates[0], "state")), (3, "refused"), "{updates:?}");
            assert!(text(&updates[0], "message").contains("the signature does not fit"), "{updates:?}");
            Ok(())
        };
        let signed = ours.sign(BUNDLE)?;
        refused(others.sign(BUNDLE)?, &named).await?;
        refused(signed.replace("2037-06-30", "2038-06-30"), &named).await?;
        // The signature of a release of EKS-D that the bundle does not name.
        let other = signed.replace("name: kubernetes-1-33-eks-20", "name: kubernetes-1-33-eks-21");
        refused(other, &named).await?;
        // Nobody has named the key.
        refused(signed.clone(), &["--update-host", &host, "--yes"]).await?;
        assert_eq!(releases.open().await?.iter().filter(|(branch, _)| branch.contains("eksa")).count(), 0);

        publish(signed);
        let (exit, updates) = releases.bump(&named).await?;
        // A Kubernetes minor is refused as long as the bundle that clusters have is not signed.
        let (found, minor) = (states(&updates)[0], states(&updates)[1]);
        assert_eq!((exit, found, minor.2), (3, ("eksa", "v0.25.0", "proposed"), "refused"), "{updates:?}");
        assert_eq!(updates[0]["automatic"], Value::Bool(false), "{updates:?}");
        let (_, pull) = releases.open().await?.remove(0);
        for said in ["bundles-81: the signature fits", "kubernetes-1-33-eks-20: the signature fits"] {
            assert!(text(&pull, "body").contains(said), "{said}: {}", text(&pull, "body"));
        }

        // Who asks nobody any more asks nobody of what is proposed, once whoever runs it says that this counts.
        releases.scene.fleet.edit("stepgate.yaml", |policy| policy.replace("approval: stage", "approval: none"));
        let (_, updates) = releases.bump(&named).await?;
        assert_eq!(updates[0]["automatic"], Value::Bool(false), "{updates:?}");
        let newest = releases.scene.gitea.read("branches/main").await?;
        let newest = newest.pointer("/commit/id").and_then(Value::as_str).unwrap_or_default();
        let trusting = [&named[..], &["--trust-policy", newest]].concat();
        let (_, updates) = releases.bump(&trusting).await?;
        assert_eq!(updates[0]["automatic"], Value::Bool(true), "{updates:?}");
        let (_, pull) = releases.open().await?.remove(0);
        let statuses = releases.statuses(&pull).await?;
        assert_eq!(statuses, [("stepgate/automatic", "success"), ("stepgate/update", "success")].map(owned));
        Ok(())
    });
}
