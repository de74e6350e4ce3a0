//! Certificates that are made on the spot.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

use super::names::DOMAIN;

/// A certificate authority of a set of servers.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key` into a folder and returns their paths.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        std::fs::create_dir_all(folder)?;
        let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        std::fs::write(&certificate, &self.certificate).with_context(|| certificate.display().to_string())?;
        std::fs::write(&key, &self.key).with_context(|| key.display().to_string())?;
        Ok((certificate, key))
    }
}

impl Authority {
    /// Makes an authority.
    ///
    /// # Errors
    /// When there are no random numbers.
    pub fn new() -> anyhow::Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named("stepgate-tests", None);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)? })
    }

    /// The authority's own certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// For a server on loopback, by any name that [`Names`](super::Names) gives it; API servers also call themselves `kubernetes.default.svc` and
    /// by their service address.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn server(&self) -> anyhow::Result<Identity> {
        self.serving(vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
            SanType::DnsName(Ia5String::try_from("localhost")?),
            SanType::DnsName(Ia5String::try_from("kubernetes.default.svc")?),
            SanType::DnsName(Ia5String::try_from(format!("*.{DOMAIN}"))?),
        ])
    }

    /// For a server of this name, such as `<service>.<namespace>.svc`.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn server_named(&self, name: &str) -> anyhow::Result<Identity> {
        self.serving(vec![SanType::DnsName(Ia5String::try_from(name)?)])
    }

    /// For a member of etcd at an address, which is a client of itself where it is asked in JSON.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn member_at(&self, address: IpAddr) -> anyhow::Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named("member", None);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        parameters.subject_alt_names = vec![SanType::IpAddress(address)];
        self.sign(&parameters)
    }

    fn serving(&self, names: Vec<SanType>) -> anyhow::Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named("server", None);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.subject_alt_names = names;
        self.sign(&parameters)
    }

    /// For a user of a group, as API servers read them from a client's certificate.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn client(&self, user: &str, group: &str) -> anyhow::Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named(user, Some(group));
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&parameters)
    }

    fn sign(&self, parameters: &CertificateParams) -> anyhow::Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn named(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    if let Some(group) = group {
        distinguished.push(DnType::OrganizationName, group);
    }
    distinguished
}
