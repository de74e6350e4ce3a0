use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::*;
use crate::manifest::parse_bundles;

const SOURCE: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Bundles
metadata:
  name: bundles-1
  annotations: {SIGNATURE}
spec:
  number: 1
  versionsBundles:
  - kubeVersion: '1.30'
    endOfStandardSupport: '2027-01-01'
    certManager: {version: v1.0.0+a, controller: {uri: 'r/c:1'}}
    bottlerocketBootstrapContainers: {image: {uri: 'r/b:1'}}
    eksD: {name: kubernetes-1-30-eks-1, manifestUrl: 'https://m', kindNode: {uri: '<none> & more'}}
status: {}
";

struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random).unwrap();
        Self { key, random }
    }

    fn sign(&self, source: &str, era: SignatureEra) -> String {
        let bundles = parse_bundles("bundles.yaml", source.replace("{SIGNATURE}", "{}").as_bytes()).unwrap();
        let text = canonical_form(&bundles.node, era);
        let signature = self.key.sign(&self.random, text.as_bytes()).unwrap();
        source.replace("{SIGNATURE}", &format!("{{{SIGNATURE_ANNOTATION}: '{}'}}", STANDARD.encode(signature)))
    }

    fn verify(&self, source: &str) -> SignatureVerdict {
        let bundles = parse_bundles("bundles.yaml", source.as_bytes()).unwrap();
        verify_with(&bundles, self.key.public_key().as_ref())
    }
}

#[test]
fn canonical_form_leaves_out_what_the_era_leaves_out() {
    let bundles = parse_bundles("bundles.yaml", SOURCE.replace("{SIGNATURE}", "{}").as_bytes()).unwrap();
    let check = |era, expect: &str| {
        let head = r#"{"apiVersion":"anywhere.eks.amazonaws.com/v1alpha1","kind":"Bundles","metadata":{"name":"bundles-1"},"spec":{"number":1,"versionsBundles":[{"#;
        assert_eq!(canonical_form(&bundles.node, era), format!("{head}{expect}}}]}}}}"), "{era:?}");
    };
    let tail = r#""endOfStandardSupport":"2027-01-01","kubeVersion":"1.30""#;
    let kind_node = r#""kindNode":{"uri":"\u003cnone\u003e \u0026 more"}"#;
    let eks_d = format!(r#""eksD":{{{kind_node},"name":"kubernetes-1-30-eks-1"}}"#);
    let eks_d_with_address =
        format!(r#""eksD":{{{kind_node},"manifestUrl":"https://m","name":"kubernetes-1-30-eks-1"}}"#);
    let containers = r#""bottlerocketBootstrapContainers":{"image":{"uri":"r/b:1"}}"#;
    check(SignatureEra::BootstrapContainers, &format!("{eks_d},{tail}"));
    check(SignatureEra::EksDAddresses, &format!("{containers},{eks_d},{tail}"));
    check(SignatureEra::Sections, &format!("{containers},{eks_d_with_address},{tail}"));
}

#[test]
fn every_era_verifies_and_names_what_it_does_not_cover() {
    let signer = Signer::new();
    let check = |era, expect: &[&str]| {
        let SignatureVerdict::Valid { era: found, not_covered } = signer.verify(&signer.sign(SOURCE, era)) else {
            panic!("{era:?} does not verify");
        };
        assert_eq!(found, era);
        assert_eq!(not_covered, expect);
    };
    check(SignatureEra::BootstrapContainers, &["bottlerocketBootstrapContainers", "certManager", "eksD.manifestUrl"]);
    check(SignatureEra::EksDAddresses, &["certManager", "eksD.manifestUrl"]);
    check(SignatureEra::Sections, &["certManager"]);
}

#[test]
fn changes_to_what_is_covered_break_it_and_others_do_not() {
    let signer = Signer::new();
    let signed = signer.sign(SOURCE, SignatureEra::BootstrapContainers);
    for (from, to) in
        [("number: 1", "number: 2"), ("2027-01-01", "2028-01-01"), ("bundles-1\n", "bundles-2\n"), ("<none>", "<some>")]
    {
        assert!(signed.contains(from));
        let verdict = signer.verify(&signed.replace(from, to));
        assert!(matches!(verdict, SignatureVerdict::Invalid { .. }), "{from} -> {to}: {verdict:?}");
    }
    for (from, to) in
        [("r/c:1", "evil/c:1"), ("https://m", "https://evil"), ("status: {}", "status: {a: b}"), ("r/b:1", "r/b:2")]
    {
        assert!(signed.contains(from));
        let verdict = signer.verify(&signed.replace(from, to));
        assert!(verdict.is_valid(), "{from} -> {to}: {verdict:?}");
        assert!(
            verdict
                .statement()
                .contains("It does not cover bottlerocketBootstrapContainers, certManager, eksD.manifestUrl")
        );
    }
}

#[test]
fn missing_and_broken_signatures_are_told_apart() {
    let check = |annotations: &str, expect: fn(&SignatureVerdict) -> bool| {
        let bundles = parse_bundles("bundles.yaml", SOURCE.replace("{SIGNATURE}", annotations).as_bytes()).unwrap();
        let verdict = verify_signature(&bundles);
        assert!(expect(&verdict), "{annotations}: {verdict:?}");
        assert!(!verdict.is_valid());
    };
    let invalid = |verdict: &SignatureVerdict| matches!(verdict, SignatureVerdict::Invalid { .. });
    check("{}", |verdict| *verdict == SignatureVerdict::Missing);
    check(&format!("{{{SIGNATURE_ANNOTATION}: ''}}"), |verdict| *verdict == SignatureVerdict::Missing);
    check(&format!("{{{SIGNATURE_ANNOTATION}: 'no base64!'}}"), invalid);
    check(&format!("{{{SIGNATURE_ANNOTATION}: 'AAAA'}}"), invalid);
    // A good signature of another key.
    let signed = Signer::new().sign(SOURCE, SignatureEra::BootstrapContainers);
    assert!(invalid(&verify_signature(&parse_bundles("bundles.yaml", signed.as_bytes()).unwrap())));
}
