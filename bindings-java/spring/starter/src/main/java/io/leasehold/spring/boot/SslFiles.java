package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.util.FileSystemUtils;

/**
 * An SSL bundle as the files that the client reads: in a directory that only this user may enter, which goes with the application.
 * The client is told of no change of the bundle.
 */
final class SslFiles implements AutoCloseable {
    private static final Base64.Encoder LINES = Base64.getMimeEncoder(64, new byte[] {'\n'});

    private @Nullable Path directory;

    /** Gives the client what the bundle has. */
    synchronized void apply(SslBundle bundle, LeaseholdClient.Builder builder) {
        try {
            Path files = Files.createTempDirectory("leasehold-ssl-");
            directory = files;
            KeyStore trusted = bundle.getStores().getTrustStore();
            if (trusted != null) {
                builder.caFile(write(files.resolve("ca.pem"), certificates(trusted)));
            }
            KeyStore own = bundle.getStores().getKeyStore();
            if (own != null) {
                String alias = alias(bundle, own);
                builder.certFile(write(files.resolve("cert.pem"), pem("CERTIFICATE", List.of(own.getCertificateChain(alias)))));
                builder.keyFile(write(files.resolve("key.pem"), key(bundle, own, alias)));
            }
        } catch (IOException error) {
            throw new UncheckedIOException("the SSL bundle of leasehold could not be written into the temporary directory", error);
        } catch (GeneralSecurityException error) {
            throw new IllegalArgumentException("the SSL bundle of leasehold could not be read: " + error.getMessage(), error);
        }
    }

    private static String certificates(KeyStore trusted) throws GeneralSecurityException {
        StringBuilder all = new StringBuilder();
        for (String alias : Collections.list(trusted.aliases())) {
            Certificate certificate = trusted.getCertificate(alias);
            if (certificate != null) {
                all.append(pem("CERTIFICATE", List.of(certificate)));
            }
        }
        return all.toString();
    }

    private static String alias(SslBundle bundle, KeyStore own) throws GeneralSecurityException {
        String named = bundle.getKey().getAlias();
        if (named != null) {
            return named;
        }
        for (String alias : Collections.list(own.aliases())) {
            if (own.isKeyEntry(alias)) {
                return alias;
            }
        }
        throw new IllegalArgumentException("the key store of leasehold's SSL bundle has no key");
    }

    private static String key(SslBundle bundle, KeyStore own, String alias) throws GeneralSecurityException {
        String password = bundle.getKey().getPassword();
        if (password == null) {
            password = bundle.getStores().getKeyStorePassword();
        }
        Key key = own.getKey(alias, password == null ? null : password.toCharArray());
        if (key == null || key.getEncoded() == null) {
            throw new IllegalArgumentException("the key \"" + alias + "\" of leasehold's SSL bundle cannot be taken out of its store");
        }
        return pem("PRIVATE KEY", key.getEncoded());
    }

    private static String pem(String kind, List<Certificate> certificates) throws GeneralSecurityException {
        StringBuilder all = new StringBuilder();
        for (Certificate certificate : certificates) {
            all.append(pem(kind, certificate.getEncoded()));
        }
        return all.toString();
    }

    private static String pem(String kind, byte[] encoded) {
        return "-----BEGIN " + kind + "-----\n" + LINES.encodeToString(encoded) + "\n-----END " + kind + "-----\n";
    }

    private static Path write(Path file, String text) throws IOException {
        return Files.writeString(file, text);
    }

    @Override
    public synchronized void close() throws IOException {
        FileSystemUtils.deleteRecursively(directory);
    }
}
