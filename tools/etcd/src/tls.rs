//! Certificates for one test: an authority of its own, and what it signs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::{Error, error::Doing};

/// How clients and members talk. Members among themselves always use plain TCP on loopback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tls {
    /// Plain TCP.
    #[default]
    None,
    /// TLS; clients need the authority's certificate.
    Server,
    /// TLS; clients also need a certificate of their own, or are refused.
    Mutual,
}

/// The files that a client of a cluster with TLS needs, all PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The certificate of the authority that signed the servers'.
    pub ca_file: PathBuf,
    /// A client certificate of the same authority; its common name is `client`.
    pub cert_file: PathBuf,
    /// The key of the client certificate.
    pub key_file: PathBuf,
    pub(crate) server_cert_file: PathBuf,
    pub(crate) server_key_file: PathBuf,
}

impl Certificates {
    /// Makes an authority, a server's certificate for loopback and a client's, and writes them into `directory`.
    ///
    /// A second set, of an authority that the server does not know, is a stranger's.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory cannot be written.
    pub fn generate(directory: &Path) -> Result<Self, Error> {
        let files = Self {
            ca_file: directory.join("ca.pem"),
            cert_file: directory.join("client.pem"),
            key_file: directory.join("client-key.pem"),
            server_cert_file: directory.join("server.pem"),
            server_key_file: directory.join("server-key.pem"),
        };
        files.write().map_err(|error| Error::Usage(format!("could not make certificates: {error}")))??;
        Ok(files)
    }

    /// The outer result is the generator's, the inner one the file system's.
    fn write(&self) -> Result<Result<(), Error>, rcgen::Error> {
        let mut params = named("leasehold test authority", Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let mut texts = vec![(&self.ca_file, authority.pem())];
        let server = (&self.server_cert_file, &self.server_key_file);
        let client = (&self.cert_file, &self.key_file);
        // etcd's own gateway is a client of its server and shows the server's certificate: that one needs both uses.
        let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        for (name, files, uses, addresses) in [
            ("server", server, both, vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]),
            ("client", client, vec![ExtendedKeyUsagePurpose::ClientAuth], Vec::new()),
        ] {
            let mut params = named(name, addresses)?;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = uses;
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &authority)?;
            texts.extend([(files.0, certificate.pem()), (files.1, key.serialize_pem())]);
        }
        Ok(texts
            .into_iter()
            .try_for_each(|(path, text)| fs::write(path, text).doing(|| format!("could not write {}", path.display()))))
    }
}

fn named(name: &str, addresses: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(addresses)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
