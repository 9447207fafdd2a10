//! With TLS options set, nothing is sent in clear text.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use zklock::{ConnectError, Session, session::TlsOptions};

/// The first byte of a TLS handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// An authority that has signed nothing.
const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBkDCCATegAwIBAgIUJgCAY6eHZXo3TaY6XDF2Dv5/QvkwCgYIKoZIzj0EAwIw
HTEbMBkGA1UEAwwSYSB0ZXN0J3MgYXV0aG9yaXR5MCAXDTI2MTEyMjA1MDgwMloY
DzIxMjYxMDI5MDUwODAyWjAdMRswGQYDVQQDDBJhIHRlc3QncyBhdXRob3JpdHkw
WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATRNRmnuoVn1rgNl+wEZW/AB70W2MHG
HEqoGbfNuwhXC493SyYPr6Rxe7j2zF+RMgG0FykipCSGGtokjSTtoceJo1MwUTAd
BgNVHQ4EFgQU7XMbUr4QZa1BJXAoo/kvV5vADBUwHwYDVR0jBBgwFoAU7XMbUr4Q
Za1BJXAoo/kvV5vADBUwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBE
AiAqgjgFyU+xLSIgozwvZOFNuO9rbsE0lAx0aSrRM3YCnAIgcrGky1ftOZHMQYYV
C5bqgRl4LToY+9lPWaS77vwgUi0=
-----END CERTIFICATE-----
";

/// A key that belongs to no certificate.
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgPPMOzRc0eAoxbjzF
GPbu9myuy0ee4hpbGNh7K5kI38KhRANCAAQC/GpVd9lYRnfc9iwo7SRU2GPPyNhi
efKZVDmPuYuqSfXHWnZP/NuKvXc3Oz8l3B6V7kPrC3FunDVJXbx4KavJ
-----END PRIVATE KEY-----
";

fn options() -> TlsOptions {
    TlsOptions::from_pem(AUTHORITY, None).expect("a certificate")
}

#[tokio::test]
async fn an_address_without_a_scheme_is_spoken_to_by_tls_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = Session::builder(address.to_string())
        .tls(options())
        .auth("digest", "service:secret")
        .connect_timeout(Duration::from_secs(3))
        .connect();
    let mut heard = 0;
    let listening = async {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 1024];
            let length = connection.read(&mut bytes).await.unwrap_or(0);
            bytes.truncate(length);
            // A connection may be given up before it says anything.
            if let Some(first) = bytes.first() {
                assert_eq!(*first, HANDSHAKE, "{}", String::from_utf8_lossy(&bytes));
                heard += 1;
            }
        }
    };
    tokio::select! {
        connected = connecting => {
            assert!(matches!(connected, Err(ConnectError::Unreachable { .. })), "{connected:?}");
        }
        () = listening => unreachable!("it goes on for ever"),
    }
    assert!(heard > 0, "nobody has connected");
}

#[tokio::test]
async fn an_address_that_asks_for_clear_text_is_refused() {
    for servers in ["tcp://localhost:2181", "localhost:2181,tcp://localhost:2182/app"] {
        let connected = Session::builder(servers).tls(options()).connect().await;
        let Err(ConnectError::Servers { cause, .. }) = connected else { panic!("{connected:?}") };
        assert!(cause.contains("clear text"), "{cause}");
    }
}

#[tokio::test]
async fn an_address_that_asks_for_tls_needs_its_options() {
    let connected = Session::builder("tcp+tls://localhost:2181").connect().await;
    assert!(matches!(connected, Err(ConnectError::Servers { .. })), "{connected:?}");
}

#[test]
fn certificates_that_are_refused_leave_the_former_ones() {
    let options = options();
    let before = format!("{options:?}");
    options.renew(AUTHORITY, Some((AUTHORITY, KEY))).unwrap_err();
    assert_eq!(format!("{options:?}"), before);
}
