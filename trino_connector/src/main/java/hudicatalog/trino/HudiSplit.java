package hudicatalog.trino;

import io.airlift.slice.SizeOf;
import java.util.Set;

/**
 * A file slice to read, or a part of its base file; {@link SplitBundle} is what the engine gets.
 *
 * @param path of the base file; empty for a slice of log files alone
 * @param start first byte: row groups whose first page lies in the range are read
 * @param fileSize bytes of the base file
 * @param served whether the service reads it: it has log files, say
 * @param renamed columns whose name means another column in the file
 * @param work bytes to read, those of log files counted several times since they are merged
 * @param members of the split as the service gave them, in JSON; it gets them back when it reads the split
 */
public record HudiSplit(String path, String partition, String fileId, long start, long length, long fileSize, boolean served,
    Set<String> renamed, String members, long work) {
  private static final int BUCKET_DIGITS = 8;

  /** What tells its slice from others of the table. */
  String slice() {
    return partition + "/" + fileId;
  }

  /** The bucket of its file group, in a table that has buckets. */
  int bucket() {
    try {
      return Integer.parseInt(fileId.substring(0, BUCKET_DIGITS));
    } catch (IndexOutOfBoundsException | NumberFormatException e) {
      throw HudiErrorCode.BAD_REPLY.exception("a file group without a bucket number: " + fileId, e);
    }
  }

  long retainedSize() {
    return 120 + SizeOf.estimatedSizeOf(path) + SizeOf.estimatedSizeOf(partition)
        + SizeOf.estimatedSizeOf(fileId) + SizeOf.estimatedSizeOf(members)
        + SizeOf.estimatedSizeOf(renamed, SizeOf::estimatedSizeOf);
  }
}
