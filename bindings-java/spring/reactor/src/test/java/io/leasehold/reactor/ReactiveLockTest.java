package io.leasehold.reactor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import io.leasehold.NotAcquiredException;
import io.leasehold.test.LeaseholdExtension;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Locks around publishers. */
class ReactiveLockTest {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static boolean isFree(String name) {
        return !leasehold.client().lock(name).isLocked();
    }

    @Test
    void eachSubscriptionTakesTheLockAndReleasesIt(LeaseholdClient client) {
        ReactiveLock lock = ReactiveLock.of(client.lock("each"));
        AtomicInteger bodies = new AtomicInteger();
        Mono<Long> mono = lock.mono(guard -> Mono.fromSupplier(() -> {
            bodies.incrementAndGet();
            assertThat(isFree("each")).isFalse();
            return guard.token();
        }));
        assertThat(bodies).hasValue(0);
        assertThat(mono.block(PATIENCE)).isLessThan(mono.block(PATIENCE));
        assertThat(lock.flux(guard -> Flux.range(0, 3).doOnNext(each -> assertThat(isFree("each")).isFalse()))
                        .collectList()
                        .block(PATIENCE))
                .containsExactly(0, 1, 2);
        assertThat(lock.<Object>mono(guard -> Mono.empty()).block(PATIENCE)).isNull();
        assertThat(isFree("each")).isTrue();
        assertThat(lock).hasToString("ReactiveLock[each]");
    }

    @Test
    void whoCannotHaveItFailsOrDoesSomethingElse(LeaseholdClient client) throws Exception {
        ReactiveLock lock = ReactiveLock.of(client.lock("busy")).within(Duration.ZERO);
        try (Guard guard = leasehold.newClient().lock("busy").acquire()) {
            assertThatThrownBy(() -> lock.mono(held -> Mono.just(1)).block(PATIENCE)).isInstanceOf(NotAcquiredException.class);
            assertThatThrownBy(() -> lock.flux(held -> Flux.just(1)).blockLast(PATIENCE)).isInstanceOf(NotAcquiredException.class);
            assertThat(lock.mono(held -> Mono.just("ran"), why -> Mono.just("else")).block(PATIENCE)).isEqualTo("else");
            assertThat(lock.flux(held -> Flux.just("ran"), why -> Flux.just("else", "more")).collectList().block(PATIENCE))
                    .containsExactly("else", "more");
            // What the body fails with is the body's, also if it looks the same.
            assertThatThrownBy(() -> ReactiveLock.of(client.lock("free"))
                            .mono(held -> lock.mono(inner -> Mono.just("ran")), why -> Mono.just("else"))
                            .block(PATIENCE))
                    .isInstanceOf(NotAcquiredException.class);
            assertThat(guard.held()).isTrue();
        }
        assertThat(isFree("busy")).isTrue();
    }

    /** Each of Mono and Flux in each of them. */
    @Test
    void aChainEntersItsOwnLockAgain(LeaseholdClient client) {
        LeaseholdLock named = client.lock("again");
        ReactiveLock lock = ReactiveLock.of(named);
        // Another object, with other options, of the same lock.
        ReactiveLock same = ReactiveLock.of(client.lock("again").withTtl(Duration.ofSeconds(30)));
        for (int round = 0; round < 2; round++) {
            Mono<Long> mono = same.mono(guard -> Mono.just(guard.token()));
            Flux<Long> flux = same.flux(guard -> Flux.just(guard.token(), guard.token()));
            assertThat(lock.mono(guard -> mono.map(token -> token == guard.token())).block(PATIENCE)).isTrue();
            assertThat(lock.mono(guard -> flux.all(token -> token == guard.token())).block(PATIENCE)).isTrue();
            assertThat(lock.flux(guard -> mono.map(token -> token == guard.token())).collectList().block(PATIENCE))
                    .containsExactly(true);
            assertThat(lock.flux(guard -> Flux.range(0, 2).concatMap(each -> flux).map(token -> token == guard.token()))
                            .collectList()
                            .block(PATIENCE))
                    .isEqualTo(List.of(true, true, true, true));
            assertThat(isFree("again")).isTrue();
        }
    }

    @Test
    void aChainThatHasLostItDoesNotEnterAgain(LeaseholdClient client) {
        ReactiveLock lock = ReactiveLock.of(client.lock("gone"));
        for (boolean isFlux : new boolean[] {false, true}) {
            AtomicInteger inner = new AtomicInteger();
            Mono<Integer> again = isFlux
                    ? lock.flux(guard -> Flux.just(inner.incrementAndGet())).next()
                    : lock.mono(guard -> Mono.just(inner.incrementAndGet()));
            Mono<Integer> outer = lock.mono(guard -> Mono.fromRunnable(() -> {
                        leasehold.lose("gone");
                        until("the loss is known", () -> !guard.held());
                    })
                    .then(again));
            assertThatThrownBy(() -> outer.block(PATIENCE)).isInstanceOf(LockLostException.class);
            assertThat(inner).hasValue(0);
        }
    }

    @Test
    void aLossIsTheEndUnlessTheBodyHasFailed(LeaseholdClient client) {
        ReactiveLock lock = ReactiveLock.of(client.lock("lost"));
        assertThatThrownBy(() -> lock.mono(guard -> losing("lost", guard).thenReturn(1)).block(PATIENCE))
                .isInstanceOf(LockLostException.class);
        assertThatThrownBy(() -> lock.flux(guard -> losing("lost", guard).thenMany(Flux.just(1))).blockLast(PATIENCE))
                .isInstanceOf(LockLostException.class);
        assertThatThrownBy(() -> lock.mono(guard -> losing("lost", guard).then(Mono.error(new IllegalArgumentException("no money"))))
                        .block(PATIENCE))
                .isInstanceOf(IllegalArgumentException.class)
                .satisfies(thrown -> assertThat(thrown.getSuppressed()).hasAtLeastOneElementOfType(LockLostException.class));
    }

    private static Mono<Void> losing(String name, Guard guard) {
        return Mono.fromRunnable(() -> {
            leasehold.lose(name);
            until("the loss is known", () -> !guard.held());
        });
    }

    @Test
    void cancellingGivesUpThePlaceOrTheLock(LeaseholdClient client) throws Exception {
        ReactiveLock lock = ReactiveLock.of(client.lock("cancel"));
        try (Guard guard = leasehold.newClient().lock("cancel").acquire()) {
            Disposable waiting = lock.mono(held -> Mono.just(1)).subscribe();
            until("it waits", () -> client.lock("cancel").queue().size() == 2);
            waiting.dispose();
            until("it is gone", () -> client.lock("cancel").queue().size() == 1);
            assertThat(guard.held()).isTrue();
        }
        CompletableFuture<Guard> begun = new CompletableFuture<>();
        Disposable running = lock.flux(held -> {
                    begun.complete(held);
                    return Flux.never();
                })
                .subscribe();
        begun.get(2, TimeUnit.MINUTES);
        running.dispose();
        until("it is free", () -> isFree("cancel"));
        // At any moment.
        for (int round = 0; round < 200; round++) {
            Disposable each = lock.mono(held -> Mono.never()).subscribe();
            for (int spin = 0; spin < round * 50; spin++) {
                Thread.onSpinWait();
            }
            each.dispose();
        }
        until("nothing is left", () -> isFree("cancel"));
    }

    @Test
    void theGuardItselfIsForOnesOwnUse(LeaseholdClient client) {
        Mono<Long> own = Mono.usingWhen(
                ReactiveLock.of(client.lock("own")).acquire(),
                guard -> Mono.just(guard.token()),
                guard -> Mono.fromFuture(guard::closeAsync));
        assertThat(own.block(PATIENCE)).isPositive();
        assertThat(isFree("own")).isTrue();
    }

    private static void until(String what, BooleanSupplier condition) {
        try {
            LeaseholdExtension.await(what, condition);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
