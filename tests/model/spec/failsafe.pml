/*
 * Serving on without ZooKeeper, by promises of all members (docs: model-failsafe).
 *
 * Broker 1 owns a bundle. Past its lease it serves on while each member of the list in ZooKeeper has
 * promised it over HTTP not to acquire the bundle. Brokers 2 and 3 may acquire it once its owner
 * node is gone. Each broker reaches ZooKeeper, or not, at any time; messages arrive late or never;
 * brokers restart, are added to the list, and are taken off it, also while they live. Time is
 * discrete; what is proven: nobody else owns the bundle while broker 1 may serve it. The clocks run
 * at one rate: a promise is counted from its arrival, and used from the time of its request on,
 * which leaves the difference of the rates over one promise to be taken off.
 *
 * The rules, each of which can be taken out:
 *  MAJORITY           broker 1 waits for the promises of all members, not of most
 *  PROMISE_MEANWHILE  who acquires, or does not know what came of it, promises nothing
 *  ANY_LIST           a promise is good for one version of the list: that of both brokers
 *  OLD_LIST           the list is read behind a sync, since each start, before a first promise
 *  JOIN_AT_ONCE       who has started, or is new on the list, acquires nothing until all members have
 *                     read the list with it, and have said so in ZooKeeper
 *  NO_WAIT            and then, until promises of before have run out: its own, which it does not
 *                     remember after a start, and those that members gave by an older list
 *  OLD_ENTRY          who was taken off the list and is on it again, is new on it, also if it has
 *                     not seen that it was off it
 *  NO_LIST            the transaction that acquires checks the version of the list
 *  COME_BACK          authority that has lapsed does not come back by promises, only by a lease
 *  REMOVE_ALL         one that was admitted stays on the list: a broker that comes later needs it,
 *                     and it has read that the others are gone
 */

#ifndef PROMISE
#define PROMISE 2            /* how long a promise lasts */
#endif
#ifndef MOST_VERSION
#define MOST_VERSION 2
#endif
#ifndef MOST_STARTS
#define MOST_STARTS 1
#endif
#define ALL 14               /* a bit for each of the brokers 1, 2 and 3 */
#define BIT(broker) (1 << (broker))
#define IS_IN(broker, set) (((set) & BIT(broker)) != 0)

/* ZooKeeper. */
byte owner = 1;              /* of the bundle; 0: nobody */
byte version = 1;            /* of the list */
byte list[4];                /* the members of each version */
byte read_by[4] = 1;         /* the version that each broker has said it has read */

/* The brokers. */
bool lease = true;           /* of broker 1 */
byte serves;                 /* units for which broker 1 may serve by promises */
byte knows[4] = 1;           /* the version of the list that it has; 0: none since its start */
byte promised[4];            /* units for which it acquires nothing */
bool acquiring[4];           /* a transaction is on its way */
byte with_version[4];        /* which checks this version of the list */
byte starts;
byte admitted[4];            /* by this entry of the list; 0: not */

/* One round of requests of broker 1, and the answers. */
byte round;                  /* its age; 0: none */
byte asks_with;              /* the version of its list */
byte asked, agreed;          /* brokers: the requests on their way; the answers that arrived */

inline pass_time()
{
    printf("-- time\n");
    serves = (serves > 0 -> serves - 1 : 0);
    promised[2] = (promised[2] > 0 -> promised[2] - 1 : 0);
    promised[3] = (promised[3] > 0 -> promised[3] - 1 : 0);
    round = (round > 0 -> round + 1 : 0);
    if :: round > PROMISE + 1 -> end_round() :: else fi
}

inline end_round()
{
    round = 0; asks_with = 0; asked = 0; agreed = 0
}

#define OTHERS(number) (list[number] & (ALL - BIT(1)))
#ifdef MAJORITY
#define ENOUGH ((agreed & OTHERS(asks_with)) != 0 || OTHERS(asks_with) == 0)
#else
#define ENOUGH ((agreed & OTHERS(asks_with)) == OTHERS(asks_with))
#endif
#ifdef ANY_LIST
#define SAME_LIST(me) (knows[me] > 0)
#else
#define SAME_LIST(me) (knows[me] == asks_with)
#endif
#ifdef PROMISE_MEANWHILE
#define HAS_NONE(me) true
#else
#define HAS_NONE(me) (!acquiring[me])
#endif
#ifdef NO_LIST
#define LIST(me) true
#else
#define LIST(me) (with_version[me] == version)
#endif
/* Each member of the newest list has read one since that version. */
#define HAVE_READ(number) ((!IS_IN(1, list[version]) || read_by[1] >= (number)) \
    && (!IS_IN(2, list[version]) || read_by[2] >= (number)) \
    && (!IS_IN(3, list[version]) || read_by[3] >= (number)))

#define MAY_ASK IS_IN(1, list[knows[1]])
#ifdef COME_BACK
#define IS_SERVING true
#else
#define IS_SERVING (lease || serves > 0)
#endif

/* The version at which it came on the list, of those up to 3. */
#define ENTRY(me, number) (!IS_IN(me, list[number]) -> 0 : ((number) > 1 && IS_IN(me, list[(number) - 1]) -> \
    ((number) > 2 && IS_IN(me, list[(number) - 2]) -> (number) - 2 : (number) - 1) : (number)))

#ifdef REMOVE_ALL
#define STAYS(me, members) true
#else
#define STAYS(me, members) (IS_IN(me, members) && IS_IN(me, list[version]) && admitted[me] == ENTRY(me, version))
#endif
#define ONE_STAYS(members) (STAYS(1, members) || STAYS(2, members) || STAYS(3, members))

inline judge()
{
    assert(!(lease || serves > 0) || owner < 2)
}

inline restart(me)
{
    printf("broker %d restarts\n", me);
    starts++; knows[me] = 0; acquiring[me] = false; with_version[me] = 0; admitted[me] = 0;
    promised[me] = 0
}

inline read_list(me, number)
{
    printf("broker %d reads version %d of the list\n", me, number);
    knows[me] = number;
    read_by[me] = (read_by[me] > number -> read_by[me] : number)
}

inline admit(me)
{
    printf("broker %d is admitted\n", me);
    admitted[me] = ENTRY(me, version);
#ifndef NO_WAIT
    promised[me] = PROMISE
#endif
}

inline change_list(members)
{
    printf("the list becomes %d\n", members);
    list[version + 1] = members; version++
}

inline promise(me)
{
    printf("broker %d promises\n", me);
    /* An answer that is lost is as one of a round that is given up. */
    asked = asked & (ALL - BIT(me)); agreed = agreed | BIT(me);
    promised[me] = (promised[me] > PROMISE -> promised[me] : PROMISE)
}

inline send_acquire(me)
{
    printf("broker %d acquires\n", me);
    acquiring[me] = true; with_version[me] = knows[me]
}

inline carry_out(me)
{
    if
    :: owner == 0 && LIST(me) -> owner = me; printf("broker %d has the bundle\n", me)
    :: else
    fi;
    acquiring[me] = false; with_version[me] = 0;
    judge()
}

#ifdef OLD_ENTRY
#define IS_ADMITTED(me) (admitted[me] != 0)
#else
#define IS_ADMITTED(me) (admitted[me] != 0 && admitted[me] == ENTRY(me, knows[me]))
#endif
#define CAN_ACQUIRE(me) (!acquiring[me] && owner != me && promised[me] == 0 && IS_ADMITTED(me) \
    && IS_IN(me, list[knows[me]]))
#ifdef JOIN_AT_ONCE
#define MAY_BE_ADMITTED(me) (admitted[me] != ENTRY(me, version) && IS_IN(me, list[version]))
#else
#define MAY_BE_ADMITTED(me) (admitted[me] != ENTRY(me, version) && IS_IN(me, list[version]) \
    && HAVE_READ(ENTRY(me, version)))
#endif

active proctype cluster()
{
    /* Broker 3 is a member from the start, or comes later. */
    atomic {
        if :: list[1] = ALL; admitted[3] = 1 :: list[1] = ALL - BIT(3); knows[3] = 0 fi;
        admitted[1] = 1; admitted[2] = 1
    }
    do
    :: d_step { lease || serves > 0 || owner != 1 || round || promised[2] || promised[3] -> pass_time() }

    /* The session of broker 1: its lease ends before it (lease.pml). */
    :: d_step { lease -> printf("the lease ends\n"); lease = false }
    :: d_step { !lease && owner == 1 -> printf("the session of broker 1 ends\n"); owner = 0 }

    /* Broker 1 asks; it has the list that it read while it had ZooKeeper. */
    :: d_step { round == 0 && IS_SERVING && MAY_ASK ->
        printf("broker 1 asks with version %d\n", knows[1]);
        round = 1; asks_with = knows[1]; asked = OTHERS(knows[1]) }
    :: d_step { IS_IN(2, asked) && SAME_LIST(2) && HAS_NONE(2) -> promise(2) }
    :: d_step { IS_IN(3, asked) && SAME_LIST(3) && HAS_NONE(3) -> promise(3) }
    :: d_step { round && round <= PROMISE && ENOUGH && IS_SERVING ->
        serves = PROMISE + 1 - round;
        printf("broker 1 may serve for %d\n", serves);
        end_round() }
    :: d_step { round -> end_round() }

    /* The others acquire. */
    :: d_step { CAN_ACQUIRE(2) -> send_acquire(2) }
    :: d_step { CAN_ACQUIRE(3) -> send_acquire(3) }
    :: d_step { acquiring[2] -> carry_out(2) }
    :: d_step { acquiring[3] -> carry_out(3) }
    :: d_step { acquiring[2] -> acquiring[2] = false; with_version[2] = 0 }
    :: d_step { acquiring[3] -> acquiring[3] = false; with_version[3] = 0 }

    /* Restarts lose what a broker knows, and end its session sooner or later. */
    :: d_step { starts < MOST_STARTS && owner != 2 -> restart(2) }
    :: d_step { starts < MOST_STARTS && owner != 3 -> restart(3) }

    /* The list: read behind a sync, and that is said in ZooKeeper. */
    :: d_step { owner == 1 && lease && knows[1] != version -> read_list(1, version) }
    :: d_step { knows[2] != version -> read_list(2, version) }
    :: d_step { knows[3] != version -> read_list(3, version) }
#ifdef OLD_LIST
    :: d_step { knows[2] == 0 && version > 1 -> read_list(2, version - 1) }
    :: d_step { knows[3] == 0 && version > 1 -> read_list(3, version - 1) }
#endif
    :: d_step { version < MOST_VERSION && ONE_STAYS(ALL) -> change_list(ALL) }
    :: d_step { version < MOST_VERSION && ONE_STAYS(BIT(1) | BIT(2)) -> change_list(BIT(1) | BIT(2)) }
    :: d_step { version < MOST_VERSION && ONE_STAYS(BIT(1) | BIT(3)) -> change_list(BIT(1) | BIT(3)) }
    :: d_step { version < MOST_VERSION && ONE_STAYS(BIT(2) | BIT(3)) -> change_list(BIT(2) | BIT(3)) }
    :: d_step { version < MOST_VERSION && ONE_STAYS(BIT(1)) -> change_list(BIT(1)) }
    :: d_step { version < MOST_VERSION && ONE_STAYS(BIT(2)) -> change_list(BIT(2)) }
    :: d_step { version < MOST_VERSION && ONE_STAYS(BIT(3)) -> change_list(BIT(3)) }
    :: d_step { MAY_BE_ADMITTED(2) -> admit(2) }
    :: d_step { MAY_BE_ADMITTED(3) -> admit(3) }
    od
}
