//! What a path is to the servers, beyond locks: whether it is there, and whom its ACL admits.

use zklock::Session;
use zookeeper_client::{Acl, AuthUser, Client, Error, Permission};

use crate::closing;
use crate::connection::Connection;
use crate::exit::Code;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::text::{counted, harmless};

/// Whether a path is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is there, and has so many children.
    There { children: usize },
    /// It is not there.
    Nothing,
}

impl Place {
    /// Looks whether a path is there. No ACL hides that.
    pub(crate) async fn of(session: &Session, path: &str) -> Result<Self, Failure> {
        let seen = session.child_count(path).await?;
        Ok(seen.map_or(Self::Nothing, |children| Self::There { children }))
    }

    /// The failure of a question about a path that is not there.
    pub(crate) fn missing(self, path: &str) -> Result<(), Failure> {
        match self {
            Self::There { .. } => Ok(()),
            Self::Nothing => Err(Failure::new(
                Code::Nothing,
                format_args!(
                    "{} does not exist. If nobody has used this lock for a minute or more, ZooKeeper has removed it, and the \
                     lock is free. Otherwise check the spelling",
                    harmless(path)
                ),
            )
            .expected()),
        }
    }
}

/// Says of a path that nobody holds it in this queue, and how many foreign contenders are there.
pub(crate) fn unheld_beside(path: &str, layout: Option<Layout>, foreign: usize) -> String {
    let path = harmless(path);
    let are = if foreign == 1 { "is" } else { "are" };
    let there = format!("{} of other clients or layouts {are} there", counted(foreign, "contender"));
    match (foreign, layout) {
        (0, _) => format!("nobody holds {path}"),
        (_, None) => format!("no contender of zklock holds {path}, but {there}"),
        (_, Some(layout)) => format!("nobody holds {path} in a queue of {}, but {there}", layout.text()),
    }
}

/// Says of a path that nobody holds it, and which locks below it somebody holds, or that foreign contenders are there. It is a
/// failure if the path does not exist.
pub(crate) async fn unheld(session: &Session, path: &str) -> Result<String, Failure> {
    let place = Place::of(session, path).await?;
    place.missing(path)?;
    let foreign = match session.lock(path) {
        Ok(lock) => lock.foreign_contenders().await?.len(),
        Err(_) => 0,
    };
    if foreign > 0 {
        let path = harmless(path);
        return Ok(format!("{}; to see them, run `zklock show {path}`", unheld_beside(&path, None, foreign)));
    }
    let below = match place {
        // What may not be listed is not counted.
        Place::There { children: 1.. } => session.locks_below(path).await.ok(),
        _ => None,
    };
    let held = below.map_or(0, |below| below.locks.len() + below.pools.len());
    let path = harmless(path);
    Ok(match held {
        0 => format!("nobody holds {path}"),
        1 => format!("nobody holds {path}. One lock below it is held; to see it, run `zklock ls {path}`"),
        several => {
            format!(
                "nobody holds {path}. {several} locks below it are held; to see them, run `zklock ls {path}`"
            )
        }
    })
}

/// Adds to a refusal by an ACL who this client is, whom the ACL admits, and which options may help.
pub(crate) async fn explained(failure: Failure, connection: &Connection) -> Failure {
    let Some(path) = failure.forbidden_path() else { return failure };
    match guarded(connection, path).await {
        Some((users, path, acl)) => {
            let admitted = text(&users, &path, acl.as_deref());
            failure.with(format_args!("{admitted}; {}", credentials(acl.as_deref())))
        }
        None => failure.with(credentials(None)),
    }
}

/// Asks who this client is to the servers, and which ACL guards a path. `None` if the servers do not say.
async fn guarded(connection: &Connection, path: &str) -> Option<(Vec<AuthUser>, String, Option<Vec<Acl>>)> {
    let client = connection.client().await.ok()?;
    let (users, acl) = (client.list_auth_users().await, guard(&client, path).await);
    closing::client(client).await;
    let (path, acl) = acl?;
    // Servers before 3.7 do not say it.
    Some((users.unwrap_or_default(), path, acl))
}

/// Names the options that make this client an identity of the ACL, if the ACL is known.
fn credentials(acl: Option<&[Acl]>) -> String {
    let options = [
        ("digest", "--digest-file (or ZKLOCK_DIGEST)"),
        ("sasl", "--digest-file (or ZKLOCK_DIGEST) with --sasl digest-md5"),
        ("x509", "--tls-cert and --tls-key"),
    ];
    let is_named = |scheme: &str| acl.is_none_or(|acl| acl.iter().any(|acl| acl.scheme() == scheme));
    let options = options.iter().filter(|(scheme, _)| is_named(scheme)).map(|(_, option)| *option);
    match options.collect::<Vec<_>>().join(", or ") {
        none if none.is_empty() => "the ACL names nobody whose credentials an option could give".to_owned(),
        some => format!("give credentials that the ACL names: {some}"),
    }
}

/// The nearest node at this path or above it, and its ACL. An ACL is hidden from those whom it grants nothing.
async fn guard(client: &Client, path: &str) -> Option<(String, Option<Vec<Acl>>)> {
    let mut path = path;
    loop {
        match client.get_acl(path).await {
            Ok((acl, _)) => return Some((path.to_owned(), Some(acl))),
            Err(Error::NoAuth) => return Some((path.to_owned(), None)),
            Err(Error::NoNode) if path != "/" => {
                path = path
                    .rsplit_once('/')
                    .map(|(parent, _)| parent)
                    .filter(|parent| !parent.is_empty())
                    .unwrap_or("/");
            }
            Err(_) => return None,
        }
    }
}

fn text(users: &[AuthUser], path: &str, acl: Option<&[Acl]>) -> String {
    let users = users.iter().map(|user| format!("{}:{}", user.scheme(), user.user())).collect::<Vec<_>>();
    let us = match users.is_empty() {
        true => "the servers do not say who this client is".to_owned(),
        false => format!("the servers know this client as {}", harmless(&users.join(" and "))),
    };
    let path = harmless(path);
    let digest = users.iter().find(|user| user.starts_with("digest:"));
    let caveat = digest.map_or_else(String::new, |user| {
        format!("; servers accept any password for {}, and only an ACL checks it", harmless(user))
    });
    let Some(acl) = acl else { return format!("{us}, and do not show it the ACL of {path}{caveat}") };
    let granted = acl.iter().map(|acl| format!("{} {}", name(acl), permissions(acl.permission())));
    let granted = harmless(&granted.collect::<Vec<_>>().join(", "));
    format!("{us}, and the ACL of {path} grants {granted}{caveat}")
}

/// An identity of an ACL, without the hash of its password.
fn name(acl: &Acl) -> String {
    let id = if acl.scheme() == "digest" { acl.id().split(':').next().unwrap_or_default() } else { acl.id() };
    format!("{}:{id}", acl.scheme())
}

fn permissions(granted: Permission) -> String {
    let all = [
        (Permission::READ, "READ"),
        (Permission::WRITE, "WRITE"),
        (Permission::CREATE, "CREATE"),
        (Permission::DELETE, "DELETE"),
        (Permission::ADMIN, "ADMIN"),
    ];
    if granted.has(Permission::ALL) {
        return "everything".to_owned();
    }
    let names = all.iter().filter(|(one, _)| granted.has(*one)).map(|(_, name)| *name).collect::<Vec<_>>();
    if names.is_empty() { "nothing".to_owned() } else { names.join("+") }
}

#[cfg(test)]
mod tests {
    use zookeeper_client::AuthId;

    use super::*;

    #[test]
    fn a_refusal_names_both_sides() {
        let users = [AuthUser::new("ip", "127.0.0.1"), AuthUser::new("digest", "alice")];
        let granting = |permission| [Acl::new(permission, AuthId::new("digest", "bob:x"))];
        let us = "the servers know this client as ip:127.0.0.1 and digest:alice";
        let caveat = "servers accept any password for digest:alice, and only an ACL checks it";
        let said = |acl: Option<&[Acl]>| text(&users, "/lock", acl);
        assert_eq!(
            said(Some(&granting(Permission::ALL))),
            format!("{us}, and the ACL of /lock grants digest:bob everything; {caveat}")
        );
        let some = granting(Permission::READ | Permission::CREATE);
        assert!(said(Some(&some)).contains("grants digest:bob READ+CREATE"));
        assert_eq!(said(None), format!("{us}, and do not show it the ACL of /lock; {caveat}"));
        assert_eq!(
            credentials(Some(&some)),
            "give credentials that the ACL names: --digest-file (or ZKLOCK_DIGEST)"
        );
        for option in ["--digest-file", "--sasl digest-md5", "--tls-cert"] {
            assert!(credentials(None).contains(option));
        }
        let nobody = [Acl::new(Permission::READ, AuthId::new("world", "anyone"))];
        assert!(credentials(Some(&nobody)).contains("names nobody"));
        assert_eq!(
            text(&[], "/lock", None),
            "the servers do not say who this client is, and do not show it the ACL of /lock"
        );
    }
}
