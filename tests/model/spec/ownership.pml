/*
 * Owners, ring, moves, leader and sessions (docs: model-ownership).
 *
 * Two brokers and ZooKeeper, which carries out one transaction at a time. A transaction is built
 * from what its broker has read, and is carried out later, or never, or its answer is lost; until
 * then anything may happen. Commands of a leader arrive late, twice or never, also those of a leader
 * that is deposed. One namespace with two hashes: its ring is one bundle, or two.
 *
 * From lease.pml this model takes one sentence: the servers end a session only when the lease of its
 * broker has ended. What is proven: no hash has two owner nodes, each owner node is one of the
 * bundles of the ring (I5); never two brokers may act for a hash (I1); only the leader of the newest
 * epoch writes a move (I3); and a move is carried out only by those whom its record names.
 *
 * A step is a transaction of ZooKeeper. What it checks is written in capitals, and each transaction
 * of the code has to check the same: tests/model/traces holds the two to each other.
 *
 * Guards that can be taken out, one at a time:
 *  LOOK_THEN_DELETE   a namespace is deleted after a look at its owners, not together with it
 *  NO_GENERATION      a ring is known by its version alone
 *  NO_RING            an owner node is created without a look at the ring
 *  NO_EPOCH           what a leader writes, and its commands, are good at any epoch
 *  NO_RECORD          a command is good whatever became of the record of its move
 *  EARLY_AUTHORITY    authority comes back before bundles have the tokens of the new session
 *  STEAL              a broker takes an owner node of another one for its own
 */

#define WHOLE 0
#define LEFT 1
#define RIGHT 2
#define NONE 255

/* Bounds: with them the number of states is finite. */
#ifndef MOST_GENERATION
#define MOST_GENERATION 3
#endif
#ifndef MOST_VERSION
#define MOST_VERSION 2
#endif
#ifndef MOST_EPOCH
#define MOST_EPOCH 2
#endif
#ifndef MOST_RECORD
#define MOST_RECORD 3
#endif
#ifndef MOST_EXPIRIES
#define MOST_EXPIRIES 2
#endif

/* ZooKeeper. */
bool ring = true;             /* there is one */
bool is_cut;              /* into two bundles */
byte version;             /* of its node: a new node begins at 0 */
byte generation = 1;      /* never begins again */
byte owner[3];            /* broker of the owner node of each bundle; 0: none */
byte leader;              /* broker of the leader's node */
byte epoch;
bool move;                /* there is a record */
byte record;              /* it was written so often; no two records share a number */
byte move_bundle, move_from, move_to;
bool alive[3] = true;     /* the session of each broker */
byte expiries;

/* Commands on their way: each may arrive again. */
byte release_epoch, release_record, release_to, release_bundle = NONE;
byte receive_epoch, receive_record, receive_to, receive_bundle = NONE;

/* The brokers 1 and 2. */
bool lease[3] = true;     /* it may act */
byte held[3];             /* the bundles it knows to own, a bit each */
byte former[3];           /* of its session before: to be reclaimed */
byte leads[3];            /* the epoch at which it thinks that it leads */

/* A transaction on its way, built from these. */
mtype = { nothing, acquire, receive, release, give_up, split, merge, delete_namespace,
    create_namespace, begin_move, write_move, end_move };
mtype wish[3] = nothing;
byte on[3];               /* this bundle */
byte by_version[3], by_generation[3], by_epoch[3], by_record[3], to[3];

#define BIT(bundle) (1 << (bundle))
#define HASHES(bundle) ((bundle) == WHOLE -> 3 : (bundle))
#define COVERS(mask) ((((mask) & 1) -> 3 : 0) | (((mask) & 2) -> 1 : 0) | (((mask) & 4) -> 2 : 0))
#define IN_RING(bundle) (ring && (is_cut == ((bundle) != WHOLE)))
#define NO_OWNERS (owner[0] == 0 && owner[1] == 0 && owner[2] == 0)

/* What transactions check. */
#ifdef NO_GENERATION
#define GENERATION true
#else
#define GENERATION (by_generation[me] == generation)
#endif
#ifdef NO_RING
#define RING true
#else
#define RING (ring && by_version[me] == version)
#endif
#ifdef NO_EPOCH
#define EPOCH true
#else
#define EPOCH (by_epoch[me] == epoch)
#endif
#ifdef NO_RECORD
#define RECORD true
#else
#define RECORD (move && by_record[me] == record)
#endif
#ifdef STEAL
#define FREE(bundle) true
#else
#define FREE(bundle) (owner[bundle] == 0)
#endif
#define MINE(bundle) (owner[bundle] == me)
#ifdef LOOK_THEN_DELETE
#define UNOWNED true
#else
#define UNOWNED NO_OWNERS
#endif

inline read_ring()
{
    by_version[me] = version; by_generation[me] = generation
}

inline done()
{
    wish[me] = nothing; on[me] = 0; by_version[me] = 0; by_generation[me] = 0; by_epoch[me] = 0;
    by_record[me] = 0; to[me] = 0
}

/* The answer of a creation arrives, or is lost: then the node is found later, and given up. */
inline learn(mask)
{
    if
    :: held[me] = held[me] | (mask); former[me] = former[me] & (255 - (mask))
    :: skip
    fi
}

inline step_acquire()
{
    if
    :: GENERATION && RING && FREE(on[me]) ->
        owner[on[me]] = me; printf("broker %d acquires %d\n", me, on[me]);
        learn(BIT(on[me]))
    :: else -> former[me] = former[me] & (255 - BIT(on[me]))
    fi
}

inline step_receive()
{
    if
    :: GENERATION && RING && EPOCH && RECORD && FREE(on[me]) ->
        printf("broker %d receives %d\n", me, on[me]);
        assert(move && move_to == me && move_bundle == on[me]);
        owner[on[me]] = me;
        learn(BIT(on[me]))
    :: else
    fi
}

inline step_release()
{
    /* It was closed before this was sent; when refused it is served on. */
    if
    :: EPOCH && RECORD && MINE(on[me]) ->
        printf("broker %d releases %d\n", me, on[me]);
        assert(move && move_from == me && move_bundle == on[me]);
        owner[on[me]] = 0
    :: else -> held[me] = held[me] | (MINE(on[me]) -> BIT(on[me]) : 0)
    fi
}

inline step_give_up()
{
    if :: MINE(on[me]) -> owner[on[me]] = 0; printf("broker %d gives up %d\n", me, on[me]) :: else fi
}

inline step_split()
{
    if
    :: GENERATION && RING && MINE(WHOLE) && FREE(LEFT) && FREE(RIGHT) ->
        printf("broker %d splits\n", me);
        version++; is_cut = true; owner[WHOLE] = 0; owner[LEFT] = me; owner[RIGHT] = me;
        held[me] = held[me] & (255 - BIT(WHOLE));
        learn(BIT(LEFT) | BIT(RIGHT))
    :: else
    fi
}

inline step_merge()
{
    if
    :: GENERATION && RING && MINE(LEFT) && MINE(RIGHT) && FREE(WHOLE) ->
        printf("broker %d merges\n", me);
        version++; is_cut = false; owner[LEFT] = 0; owner[RIGHT] = 0; owner[WHOLE] = me;
        held[me] = held[me] & (255 - BIT(LEFT) - BIT(RIGHT));
        learn(BIT(WHOLE))
    :: else
    fi
}

inline step_delete_namespace()
{
    if
    :: GENERATION && RING && UNOWNED ->
        printf("broker %d deletes the namespace\n", me);
        ring = false; is_cut = false; version = 0; generation++
    :: else
    fi
}

inline step_create_namespace()
{
    if
    :: GENERATION && !ring ->
        ring = true; version = 0; generation++;
        if :: is_cut = true :: is_cut = false fi;
        printf("broker %d creates the namespace, cut: %d\n", me, is_cut)
    :: else
    fi
}

inline step_begin_move()
{
    if
    :: EPOCH && !move ->
        printf("broker %d begins a move of %d to %d\n", me, on[me], to[me]);
        assert(by_epoch[me] == epoch);
        move = true; record++; move_bundle = on[me]; move_to = to[me]; move_from = owner[on[me]]
    :: else
    fi
}

inline step_write_move()
{
    /* A new leader adopts it, or it gets another receiver. */
    if
    :: EPOCH && (move && by_record[me] == record) ->
        printf("broker %d writes the move, to %d\n", me, to[me]);
        assert(by_epoch[me] == epoch);
        record++; move_to = to[me]
    :: else
    fi
}

inline step_end_move()
{
    /* By the receiver, which checks the record alone, or by the leader. */
    if
    :: EPOCH && (move && by_record[me] == record) ->
        printf("broker %d ends the move\n", me);
        move = false; move_bundle = 0; move_to = 0; move_from = 0
    :: else
    fi
}

inline step_elect()
{
    printf("broker %d leads\n", me);
    leader = me; epoch++; leads[me] = epoch
}

inline step_expire()
{
    printf("the session of broker %d ends\n", me);
    expiries++; alive[me] = false;
    owner[0] = (owner[0] == me -> 0 : owner[0]);
    owner[1] = (owner[1] == me -> 0 : owner[1]);
    owner[2] = (owner[2] == me -> 0 : owner[2]);
    leader = (leader == me -> 0 : leader);
    done()
}

inline carry_out()
{
    if
    :: wish[me] == acquire -> step_acquire()
    :: wish[me] == receive -> step_receive()
    :: wish[me] == release -> step_release()
    :: wish[me] == give_up -> step_give_up()
    :: wish[me] == split -> step_split()
    :: wish[me] == merge -> step_merge()
    :: wish[me] == delete_namespace -> step_delete_namespace()
    :: wish[me] == create_namespace -> step_create_namespace()
    :: wish[me] == begin_move -> step_begin_move()
    :: wish[me] == write_move -> step_write_move()
    :: wish[me] == end_move -> step_end_move()
    fi;
    done();
    judge()
}

/* Also for what its broker process has from the session before. */
#define ACTS(broker) (lease[broker] -> COVERS(held[broker] | former[broker]) : 0)
#define OWNED(bundle) (owner[bundle] != 0)

inline judge()
{
    assert(!(OWNED(WHOLE) && (OWNED(LEFT) || OWNED(RIGHT))));
    assert(!OWNED(WHOLE) || IN_RING(WHOLE));
    assert(!OWNED(LEFT) || IN_RING(LEFT));
    assert(!OWNED(RIGHT) || IN_RING(RIGHT));
    assert((ACTS(1) & ACTS(2)) == 0)
}

#define IDLE (wish[me] == nothing && alive[me])
#define FREE_HERE(bundle) ((COVERS(held[me] | former[me]) & HASHES(bundle)) == 0)

#ifdef EARLY_AUTHORITY
#define CAN_HAVE_AUTHORITY true
#else
#define CAN_HAVE_AUTHORITY (former[me] == 0)
#endif

inline choose(bundle)
{
    if :: bundle = WHOLE :: bundle = LEFT :: bundle = RIGHT fi
}

active [2] proctype broker()
{
    byte me = _pid + 1;
    byte bundle;

    do
    /* Sessions. Authority may end at any time; a proof gives it back. */
    :: atomic { lease[me] -> lease[me] = false }
    :: atomic { !lease[me] && alive[me] && CAN_HAVE_AUTHORITY -> lease[me] = true; judge() }
    :: atomic { alive[me] && !lease[me] && expiries < MOST_EXPIRIES -> step_expire() }
    :: atomic { !alive[me] -> alive[me] = true; leads[me] = 0;
        former[me] = former[me] | held[me]; held[me] = 0 }

    /* Owners. */
    :: atomic { IDLE && lease[me] -> choose(bundle);
        if
        :: IN_RING(bundle) && FREE_HERE(bundle) ->
            wish[me] = acquire; on[me] = bundle; read_ring()
        :: else
        fi; bundle = 0 }
    :: atomic { IDLE && former[me] -> choose(bundle);
        if
        :: (former[me] & BIT(bundle)) && IN_RING(bundle) ->
            wish[me] = acquire; on[me] = bundle; read_ring()
        :: (former[me] & BIT(bundle)) && !IN_RING(bundle) ->
            former[me] = former[me] & (255 - BIT(bundle))
        :: else
        fi; bundle = 0 }
    /* A node of this session that it does not know to own, or a bundle that it unloads. */
    :: atomic { IDLE -> choose(bundle);
        if
        :: owner[bundle] == me ->
            held[me] = held[me] & (255 - BIT(bundle)); wish[me] = give_up; on[me] = bundle
        :: else
        fi; bundle = 0 }
    :: atomic { IDLE && lease[me] && (held[me] & BIT(WHOLE)) && version < MOST_VERSION ->
        wish[me] = split; read_ring() }
    :: atomic { IDLE && lease[me] && held[me] == (BIT(LEFT) | BIT(RIGHT)) && version < MOST_VERSION ->
        wish[me] = merge; read_ring() }

    /* Namespace. */
    :: atomic { IDLE && ring && NO_OWNERS && generation < MOST_GENERATION ->
        wish[me] = delete_namespace; read_ring() }
    :: atomic { IDLE && !ring && generation < MOST_GENERATION -> wish[me] = create_namespace; read_ring() }

    /* The leader. */
    :: atomic { IDLE && lease[me] && leader == 0 && epoch < MOST_EPOCH -> step_elect() }
    /* Its node goes while its session lives; it does not know that at once. */
    :: atomic { leader == me && epoch < MOST_EPOCH -> leader = 0 }
    :: atomic { leads[me] && leader != me -> leads[me] = 0 }
    :: atomic { IDLE && leads[me] && !move && record < MOST_RECORD -> choose(bundle);
        if
        :: owner[bundle] ->
            wish[me] = begin_move; on[me] = bundle; by_epoch[me] = leads[me];
            to[me] = 3 - owner[bundle]
        :: else
        fi; bundle = 0 }
    :: atomic { IDLE && leads[me] && move && record < MOST_RECORD ->
        wish[me] = write_move; by_epoch[me] = leads[me]; by_record[me] = record;
        if :: to[me] = 1 :: to[me] = 2 fi }
    :: atomic { IDLE && leads[me] && move ->
        wish[me] = end_move; by_epoch[me] = leads[me]; by_record[me] = record }
    :: atomic { leads[me] == epoch && move && release_bundle == NONE ->
        release_epoch = leads[me]; release_record = record; release_to = move_from;
        release_bundle = move_bundle }
    :: atomic { leads[me] == epoch && move && receive_bundle == NONE && owner[move_bundle] == 0 ->
        receive_epoch = leads[me]; receive_record = record; receive_to = move_to;
        receive_bundle = move_bundle }
    :: atomic { release_to == me ->
        release_epoch = 0; release_record = 0; release_to = 0; release_bundle = NONE }
    :: atomic { receive_to == me ->
        receive_epoch = 0; receive_record = 0; receive_to = 0; receive_bundle = NONE }

    /* Commands; each can be carried out again. */
    :: atomic { IDLE && lease[me] && release_to == me && (held[me] & BIT(release_bundle)) ->
        held[me] = held[me] & (255 - BIT(release_bundle));
        wish[me] = release; on[me] = release_bundle;
        by_epoch[me] = release_epoch; by_record[me] = release_record }
    :: atomic { IDLE && lease[me] && receive_to == me && FREE_HERE(receive_bundle) && IN_RING(receive_bundle) ->
        wish[me] = receive; on[me] = receive_bundle; read_ring();
        by_epoch[me] = receive_epoch; by_record[me] = receive_record }

    /* ZooKeeper carries the transaction out, or never gets it. */
    :: atomic { wish[me] != nothing && alive[me] -> carry_out() }
    :: atomic { wish[me] != nothing -> held[me] = held[me] | (wish[me] == release && MINE(on[me]) -> BIT(on[me]) : 0); done() }
    od
}
