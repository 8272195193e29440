/*
 * The lease of a broker against the timer of its session (docs: lease-proof, model-lease).
 *
 * One client, two servers that may grant different timeouts, and their leader, which alone ends
 * sessions. Time is discrete: a quarter of a tick a unit. What may take long takes any time: a
 * heartbeat between the client's clock and its server, its answer, a cut. What is proven: whenever
 * the leader ends the session, the lease has ended. All clocks run at one rate: their differences
 * are what the lease has its margin for, which is 0 here.
 *
 * The pulse, as the servers of ZooKeeper 3.9 have it (docs: zookeeper-session-rules):
 *  - a server notes which sessions it hears from. When the leader pings it, twice a tick, it reports
 *    them with the timeout that it has granted; from then the leader counts that timeout, longer or
 *    shorter than before. Requests that a server hands on do not count;
 *  - the leader ends sessions in buckets of one tick;
 *  - who resumes a session at another server is counted at once, with what that server grants;
 *  - what goes from a server to its leader arrives in its order, until the two are cut off: then
 *    what is on its way is lost, and the server starts again without clients.
 *
 * Mends that can be taken out, one at a time:
 *  KEEP_OLD_TIMEOUT   a server that grants less leaves the lease as it is
 *  CREDIT_ANY_BEAT    a heartbeat proves the one before it, however short before it that was
 * An assumption that can be taken out:
 *  LOSE_HANDSHAKES    a server grants less, the leader counts it, and the answer is lost
 */

#define TICK 4
#define PING (TICK / 2)
#ifndef SLACK
#define SLACK 1
#endif
#ifndef LATE
#define LATE 0                 /* pings of the leader come late by this, at most; less than SLACK */
#endif
#define REPORT (PING + SLACK)  /* after its answer a heartbeat is surely reported */
#define HANDSHAKE 1            /* then an attempt to connect is given up */
#ifndef LONG
#define LONG 9                 /* what server 1 grants */
#endif
#ifndef SHORT
#define SHORT 6                /* what server 2 grants */
#endif

#define GRANTS(number) ((number) == 1 -> LONG : SHORT)
#define LESS(a, b) ((a) < (b) -> (a) : (b))
#define MORE(a, b) ((a) > (b) -> (a) : (b))

/* The leader. */
byte expires;            /* units until it ends the session */
byte phase;              /* of its buckets */
byte ping_in;            /* units until its next ping is at the servers */

/* The server that the client is connected to, and the one before. */
byte server;             /* its number; 0: not connected */
bool linked;             /* with the leader */
bool heard;              /* of the session since its last report */
byte reports;               /* the timeout that it has granted */
byte formerly_heard;     /* the timeout that the former server may still report; 0: none */

/* The client. Ages begin with 1: 0 says that there is nothing. */
byte lease;              /* units until its deadline */
byte agreed;             /* the timeout that it counts with */
byte asking;             /* the age of its attempt to connect */
byte asked;              /* this server */
byte granted;            /* and what that has granted */
mtype = { none, stamped, committed };
mtype beat = none;       /* where its heartbeat is */
byte beat_age;           /* since it was stamped */
bool proves_first;       /* what it proves once it is answered: see `waiting` of the lease */
bool proves_second;
byte first_sent;         /* an answered heartbeat that is maybe not reported: since it was stamped */
byte first_answered;     /* and since it was answered */
byte second_sent;
byte second_answered;

#define OLDER(age, most) age = (age > 0 && age < (most) -> age + 1 : age)

inline touch(units)
{
#ifdef NO_BUCKETS
    expires = units
#else
    expires = units + TICK - ((phase + units) % TICK)
#endif
}

inline prove(age)
{
    lease = (agreed + 1 > age -> MORE(lease, agreed + 1 - age) : lease)
}

inline forget_beat()
{
    beat = none; beat_age = 0; proves_first = false; proves_second = false
}

inline disconnect()
{
    /* The server may report later what it has heard: at any time, or never. */
    if :: linked && heard -> formerly_heard = reports :: formerly_heard = 0 fi;
    server = 0; linked = false; heard = false; reports = 0;
    /* What is found out over another connection proves nothing. */
    forget_beat()
}

inline ping()
{
    printf("the leader pings; server %d heard of the session: %d\n", server, heard);
    if :: ping_in = PING :: ping_in = PING + LATE fi;
    if
    :: linked && heard -> heard = false; touch(reports)
    /* The report is lost with its connection. */
    :: linked && heard -> heard = false; linked = false
    :: !linked || !heard
    fi
}

inline ask(number)
{
    /* A client never asks for more than it was granted last. */
    asking = 1; asked = number; granted = LESS(GRANTS(number), agreed);
    printf("server %d resumes the session, and grants %d\n", number, granted);
    touch(granted)
}

inline adopt()
{
    printf("the client is connected to server %d\n", asked);
    server = asked; reports = granted; heard = true; linked = true;
#ifndef KEEP_OLD_TIMEOUT
    if
    :: granted < agreed -> agreed = granted; lease = LESS(lease, granted - HANDSHAKE)
    :: else
    fi;
#endif
    asking = 0; asked = 0; granted = 0
}

inline acknowledge()
{
#ifdef CREDIT_ANY_BEAT
    if :: first_sent -> prove(first_sent) :: else fi;
    first_sent = beat_age; first_answered = 1;
#else
    if :: proves_first -> prove(first_sent) :: else fi;
    if :: proves_second -> prove(second_sent) :: else fi;
    if
    :: proves_first && !proves_second -> first_sent = second_sent; first_answered = second_answered
    :: proves_first && proves_second -> first_sent = 0; first_answered = 0
    :: else
    fi;
    if :: proves_first || proves_second -> second_sent = 0; second_answered = 0 :: else fi;
    if
    :: first_sent == 0 -> first_sent = beat_age; first_answered = 1
    :: else -> second_sent = beat_age; second_answered = 1
    fi;
#endif
    forget_beat();
    printf("the heartbeat is answered: lease %d, timer %d\n", lease, expires)
}

inline pass_time()
{
    printf("-- a quarter of a tick\n");
    lease = (lease > 0 -> lease - 1 : 0);
    expires--; ping_in--; phase = (phase + 1) % TICK;
    OLDER(asking, HANDSHAKE + 1);
    OLDER(beat_age, LONG + 1); OLDER(first_sent, LONG + 1); OLDER(second_sent, LONG + 1);
    OLDER(first_answered, REPORT + 1); OLDER(second_answered, REPORT + 1);
    /* What is as old as the timeout proves nothing any more. */
    if
    :: first_sent > agreed ->
        first_sent = second_sent; first_answered = second_answered;
        proves_first = proves_second;
        second_sent = 0; second_answered = 0; proves_second = false
    :: else
    fi;
    if :: second_sent > agreed -> second_sent = 0; second_answered = 0; proves_second = false :: else fi;
    /* What the client has not been answered yet, it cannot know: it is answered in time. */
    assert(lease <= expires || (asking && granted < agreed))
}

#ifdef LOSE_HANDSHAKES
#define MAY_BE_LOST asking
#else
#define MAY_BE_LOST (asking && granted >= agreed)
#endif

active proctype session()
{
    atomic {
        if :: phase = 0 :: phase = 1 :: phase = 2 :: phase = 3 fi;
        if :: ping_in = 1 :: ping_in = 2 fi;
        agreed = LONG; lease = LONG - HANDSHAKE; touch(LONG);
        server = 1; linked = true; heard = true; reports = LONG
    }
    do
    :: d_step { expires > 0 && ping_in > 0 && asking <= HANDSHAKE -> pass_time() }
    :: atomic { expires == 0 -> assert(lease == 0); break }

    /* The servers. */
    :: atomic { ping_in == 0 -> ping() }
    :: d_step { formerly_heard ->
        printf("the former server reports the session, timeout %d\n", formerly_heard);
        touch(formerly_heard); formerly_heard = 0 }
    :: atomic { linked -> printf("the server loses its leader\n"); linked = false }

    /* Heartbeats: at any time after the answer of the one before. */
    :: d_step { server && beat == none ->
        printf("a heartbeat is stamped\n");
        beat = stamped; beat_age = 1;
        proves_first = (first_answered > REPORT); proves_second = (second_answered > REPORT) }
    :: d_step { beat == stamped && linked ->
        printf("the heartbeat is at the server, and committed\n");
        beat = committed; heard = true }
    :: d_step { beat == committed -> acknowledge() }

    /* The connection: a ping of the client counts as a request does. */
    :: atomic { linked && !heard -> printf("the client pings\n"); heard = true }
    :: atomic { server -> printf("the connection ends\n"); disconnect() }
    :: d_step { server == 0 && asking == 0 -> ask(1) }
    :: d_step { server == 0 && asking == 0 -> ask(2) }
    :: d_step { asking -> adopt() }
    :: atomic { MAY_BE_LOST -> printf("no answer\n"); asking = 0; asked = 0; granted = 0 }
    od
}
