package io.leasehold.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.DefaultTransactionStatus;

/** The lock is there until the transaction of the same method has committed: on a real database, with a real manager. */
class LockedTransactionTest {
    private static final int THREADS = 4;
    private static final int ROUNDS = 25;

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    /** Read, think, write, as two statements. */
    static class Account {
        private final JdbcTemplate jdbc;

        Account(JdbcTemplate jdbc) {
            this.jdbc = jdbc;
            jdbc.execute("create table account (id int primary key, balance int)");
            jdbc.update("insert into account values (1, 0)");
        }

        @Locked(name = "account:#{#id}")
        @Transactional
        public void deposit(int id) {
            int balance = jdbc.queryForObject("select balance from account where id = ?", Integer.class, id);
            jdbc.update("update account set balance = ? where id = ?", balance + 1, id);
        }
    }

    /** Begins its transaction before the lock. */
    static class Outer {
        private final Account account;

        Outer(Account account) {
            this.account = account;
        }

        @Transactional
        public void deposit(Runnable before, Runnable after) {
            before.run();
            account.deposit(1);
            account.deposit(1);
            after.run();
        }
    }

    /** Looks at the lock when a commit begins and when it is done. */
    static class Watching extends JdbcTransactionManager {
        private static final long serialVersionUID = 1;

        final transient List<String> seen = new ArrayList<>();

        Watching(DataSource source) {
            super(source);
        }

        @Override
        protected void doCommit(DefaultTransactionStatus status) {
            boolean before = leasehold.client().lock("account:1").isLocked();
            super.doCommit(status);
            boolean after = leasehold.client().lock("account:1").isLocked();
            synchronized (seen) {
                seen.add(before + "/" + after);
            }
        }
    }

    @Configuration
    // The outermost order that a transaction can have: the lock is still outside.
    @EnableTransactionManagement(order = Ordered.HIGHEST_PRECEDENCE, proxyTargetClass = true)
    static class Transactions {
        @Bean
        Watching transactionManager(DataSource source) {
            return new Watching(source);
        }

        @Bean
        Account account(JdbcTemplate jdbc) {
            return new Account(jdbc);
        }

        @Bean
        Outer outer(Account account) {
            return new Outer(account);
        }
    }

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        LeaseholdAutoConfiguration.class,
                        DataSourceAutoConfiguration.class,
                        JdbcTemplateAutoConfiguration.class))
                .withUserConfiguration(Transactions.class)
                .withPropertyValues(
                        "leasehold.endpoints=" + leasehold.url(), "spring.datasource.generate-unique-name=true");
    }

    private static int balance(ApplicationContext context) {
        Integer balance = context.getBean(JdbcTemplate.class)
                .queryForObject("select balance from account where id = 1", Integer.class);
        return balance == null ? -1 : balance;
    }

    @Test
    void theLockIsKeptUntilAnOuterTransactionHasEnded() {
        application().run(context -> {
            Outer outer = context.getBean(Outer.class);
            outer.deposit(() -> {}, () -> {});
            assertThat(balance(context)).isEqualTo(2);
            assertThat(context.getBean(Watching.class).seen).containsExactly("true/true");
            assertThat(leasehold.client().lock("account:1").isLocked()).isFalse();

            assertThatThrownBy(() -> outer.deposit(() -> {}, () -> {
                        throw new IllegalArgumentException("no money");
                    }))
                    .hasMessage("no money");
            assertThat(balance(context)).isEqualTo(2);
            assertThat(leasehold.client().lock("account:1").isLocked()).isFalse();
        });
    }

    @Test
    void anOuterTransactionDoesNotCommitWhatALostLockProtected() {
        application().run(context -> {
            Outer outer = context.getBean(Outer.class);
            assertThatThrownBy(() -> outer.deposit(() -> {}, () -> {
                        leasehold.lose("account:1");
                        until(() -> !context.getBean(LeaseholdClient.class).lock("account:1").isHeldByCurrentThread());
                    }))
                    .isInstanceOf(LockLostException.class);
            assertThat(balance(context)).isZero();
            outer.deposit(() -> {}, () -> {});
            assertThat(balance(context)).isEqualTo(2);
        });
    }

    private static void until(BooleanSupplier condition) {
        try {
            LeaseholdExtension.await("the loss is known", condition);
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }

    @Test
    void anOuterTransactionCanBeRefusedOrWarnedOf() {
        application().withPropertyValues("leasehold.locked.outer-transaction=refuse").run(context -> {
            assertThatThrownBy(() -> context.getBean(Outer.class).deposit(() -> {}, () -> {}))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("inside a transaction");
            context.getBean(Account.class).deposit(1);
            assertThat(balance(context)).isEqualTo(1);
            // Whoever holds the lock before the transaction begins has nothing to fear.
            LeaseholdLock lock = context.getBean(LeaseholdClient.class).lock("account:1");
            lock.lock();
            context.getBean(Outer.class).deposit(() -> {}, () -> {});
            lock.unlock();
            assertThat(balance(context)).isEqualTo(3);
        });
        application().withPropertyValues("leasehold.locked.outer-transaction=warn").run(context -> {
            context.getBean(Outer.class).deposit(() -> {}, () -> {});
            assertThat(balance(context)).isEqualTo(2);
            assertThat(context.getBean(Watching.class).seen).containsExactly("false/false");
        });
    }

    @Test
    void theLockIsReleasedAfterTheCommit() {
        application().run(context -> {
            Account account = context.getBean(Account.class);
            ExecutorService threads = Executors.newFixedThreadPool(THREADS);
            List<Future<?>> running = new ArrayList<>();
            for (int thread = 0; thread < THREADS; thread++) {
                running.add(threads.submit(() -> {
                    for (int round = 0; round < ROUNDS; round++) {
                        account.deposit(1);
                    }
                }));
            }
            for (Future<?> each : running) {
                each.get(60, TimeUnit.SECONDS);
            }
            threads.shutdown();
            Integer balance = context.getBean(JdbcTemplate.class)
                    .queryForObject("select balance from account where id = 1", Integer.class);
            assertThat(balance).isEqualTo(THREADS * ROUNDS);
            assertThat(context.getBean(Watching.class).seen)
                    .hasSize(THREADS * ROUNDS)
                    .containsOnly("true/true");
            assertThat(context.getBean(LeaseholdClient.class).lock("account:1").isLocked()).isFalse();
        });
    }
}
