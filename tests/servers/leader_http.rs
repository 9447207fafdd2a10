//! The example `leader_http`, as processes: one answers, and the others name it.

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::leader::{PATH, Service, until_candidates, until_led_by};
use support::{eventually, operator, server, session, until_nothing_is_left, within};

impl Service {
    /// The whole response to a request for this path.
    async fn got(&self, path: &str) -> String {
        got(&self.address, path).await
    }
}

async fn got(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: service\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    within("a response", stream.read_to_string(&mut response)).await.unwrap();
    response
}

/// Waits until this instance does the work, and the others refuse it and name this one. At no time two do the work.
async fn until_one_answers(instances: &[Service], leader: usize, token: &str) {
    let done = format!("done by the leader with token {token}\n");
    let address = &instances[leader].address;
    let fields = ["retry-after: 1".to_owned(), format!("leader: {address}")];
    eventually("one answers", async || {
        let mut are_right = true;
        let mut answering = 0;
        for (index, instance) in instances.iter().enumerate() {
            let response = instance.got("/orders/7").await;
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            answering += usize::from(head.starts_with("HTTP/1.1 200"));
            are_right &= if index == leader {
                head.starts_with("HTTP/1.1 200") && body == done
            } else {
                head.starts_with("HTTP/1.1 503")
                    && fields.iter().all(|field| head.lines().any(|line| line == field))
                    && body == format!("the leader is at {address}\n")
            };
        }
        assert!(answering <= 1, "{answering} do the work");
        are_right
    })
    .await;
}

#[tokio::test]
async fn one_answers_and_the_others_name_it() {
    let server = server().await;
    let election = session(&server).await.election(PATH).unwrap();
    let mut leaders = election.observe();
    let mut instances = Vec::new();
    for number in 1..=3 {
        instances.push(Service::start(&server, "leader_http").await);
        until_candidates(&election, number).await;
    }
    let leader = until_led_by(&mut leaders, &instances[0].address).await;
    until_one_answers(&instances, 0, &leader.token.to_string()).await;
    for instance in &instances {
        assert!(instance.got("/ready").await.starts_with("HTTP/1.1 200"), "a follower is ready");
    }

    // An operator deletes its node while it works, and it queues again. The work may have been done.
    let slow = instances[0].address.clone();
    let slow = tokio::spawn(async move { got(&slow, "/slow").await });
    instances[0].says("begins /slow").await;
    let node = election.candidates().await.unwrap().remove(0).path;
    operator(&server).await.delete(&node, None).await.unwrap();
    let leader = until_led_by(&mut leaders, &instances[1].address).await;
    until_one_answers(&instances, 1, &leader.token.to_string()).await;
    let response = slow.await.unwrap();
    assert!(response.starts_with("HTTP/1.1 500") && response.contains("may have been done"), "{response}");
    until_candidates(&election, 3).await;

    // It is killed. Until the servers notice, both others name it, or say that nobody leads.
    let mut killed = instances.remove(1);
    killed.signal(Signal::KILL);
    within("its end", killed.process.wait()).await.unwrap();
    for instance in &instances {
        let response = instance.got("/").await;
        assert!(response.starts_with("HTTP/1.1 503") && response.contains("retry-after: 1"), "{response}");
    }
    let leader = until_led_by(&mut leaders, &instances[1].address).await;
    until_one_answers(&instances, 1, &leader.token.to_string()).await;

    for mut instance in instances.into_iter().rev() {
        instance.signal(Signal::TERM);
        assert!(within("its end", instance.process.wait()).await.unwrap().success());
    }
    drop(leaders);
    until_nothing_is_left(&server).await;
}
