//! TLS before HTTP: a certificate and its key, of two files. Knows nothing of requests.
//!
//! In a build without the feature `tls` there is no value of it, and the sentence that says so.

use std::path::Path;

use anyhow::Result;

#[cfg(feature = "tls")]
pub(crate) use with::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::io;
    use std::sync::Arc;

    use anyhow::{Context, anyhow, bail};
    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::server::TlsStream;

    use super::{Path, Result};
    use crate::input_file;

    /// What a connection is encrypted with.
    pub(crate) struct Tls(TlsAcceptor);

    impl Tls {
        /// Of a chain of certificates, the server's own first, and its private key, both as PEM.
        pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Tls> {
            let text = input_file::text(certificate).context("--tls-cert")?;
            let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(text.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|error| anyhow!("--tls-cert: {} is no PEM: {error}", certificate.display()))?;
            if chain.is_empty() {
                bail!(
                    "--tls-cert: no certificate stands in {}; give a PEM file with -----BEGIN CERTIFICATE-----",
                    certificate.display()
                );
            }
            let text = input_file::text(key).context("--tls-key")?;
            let secret = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| {
                anyhow!(
                    "--tls-key: {} has no private key ({error}); give a PEM file with -----BEGIN PRIVATE KEY-----",
                    key.display()
                )
            })?;
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(chain, secret)
                .map_err(|error| {
                    anyhow!(
                        "{} and {} do not belong together ({error}); give a certificate and its own key",
                        certificate.display(),
                        key.display()
                    )
                })?;
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Tls(TlsAcceptor::from(Arc::new(config))))
        }

        /// The same stream, encrypted.
        pub(in crate::web) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
        where
            S: AsyncRead + AsyncWrite + Unpin,
        {
            self.0.accept(stream).await
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::io;

    use anyhow::bail;

    use super::{Path, Result};

    pub(crate) enum Tls {}

    impl Tls {
        pub(crate) fn read(_: &Path, _: &Path) -> Result<Tls> {
            bail!(
                "this linerate speaks no TLS; build it with --features tls, or let a proxy of yours speak TLS before it and say \
                 --behind-proxy"
            )
        }

        pub(in crate::web) async fn accept<S>(&self, _: S) -> io::Result<S> {
            match *self {}
        }
    }
}
