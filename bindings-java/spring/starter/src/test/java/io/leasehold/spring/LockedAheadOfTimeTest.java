package io.leasehold.spring;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.Contender;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.aot.test.generate.TestGenerationContext;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.aot.ApplicationContextAotGenerator;
import org.springframework.core.test.tools.TestCompiler;
import org.springframework.mock.env.MockEnvironment;

/** An application that is processed ahead of time, as for a native image: what Spring generates compiles, and the hints are there. */
class LockedAheadOfTimeTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    /** A bean as users have it. */
    public static class Orders {
        @Locked(name = "order:#{#root.args[0]}", waitFor = "0s", fallback = "busy")
        public String pay(int id) {
            return "paid with " + (CurrentLock.token() > 0);
        }

        private String busy(int id) {
            return "busy";
        }
    }

    private static MockEnvironment environment() {
        return new MockEnvironment().withProperty("leasehold.endpoints", leasehold.url());
    }

    @Test
    void whatIsMadeAheadOfTimeCompilesAndHasItsHints() {
        TestGenerationContext generated = new TestGenerationContext();
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext()) {
            context.setEnvironment(environment());
            context.register(LeaseholdAutoConfiguration.class);
            context.registerBean(Orders.class);
            new ApplicationContextAotGenerator().processAheadOfTime(context, generated);
        }
        generated.writeGeneratedContent();
        looksAt(generated.getRuntimeHints());
        TestCompiler.forSystem()
                .with(generated)
                .compile(compiled -> assertThat(compiled.getInstance(ApplicationContextInitializer.class)).isNotNull());
    }

    private static void looksAt(RuntimeHints hints) {
        assertThat(RuntimeHintsPredicates.reflection().onMethodInvocation(Orders.class, "pay")).accepts(hints);
        assertThat(RuntimeHintsPredicates.reflection().onMethodInvocation(Orders.class, "busy")).accepts(hints);
        assertThat(RuntimeHintsPredicates.reflection().onMethodInvocation(LockedMethod.Root.class, "args")).accepts(hints);
        assertThat(RuntimeHintsPredicates.reflection().onMethodInvocation(Contender.class, "token")).accepts(hints);
    }
}
