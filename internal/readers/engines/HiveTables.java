import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.antlr.runtime.tree.Tree;
import org.apache.hadoop.hive.ql.parse.ASTNode;
import org.apache.hadoop.hive.ql.parse.HiveParser;
import org.apache.hadoop.hive.ql.parse.ParseDriver;

/**
 * Lets Hive's own parser read statements, which come from the input with a zero byte between two, and says what it
 * understood: lines of words with tabs in between, "statement" first. A statement that it does not take ends the program.
 */
public class HiveTables {
    public static void main(String[] args) throws Exception {
        String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        List<String> lines = new ArrayList<>();
        for (String statement : text.split("\0")) {
            ASTNode tree = new ParseDriver().parse(statement);
            lines.add("statement\t" + tree.getChild(0).getText());
            describe(tree, lines);
        }
        System.out.write((String.join("\n", lines) + "\n").getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    /** Adds what stands in a tree, in the order of the statement. */
    private static void describe(Tree node, List<String> lines) {
        switch (node.getType()) {
            case HiveParser.TOK_TABNAME -> lines.add("table\t" + words(node, "."));
            case HiveParser.TOK_TABCOL -> {
                boolean partition = node.getParent().getParent().getType() == HiveParser.TOK_TABLEPARTCOLS;
                lines.add((partition ? "partition\t" : "column\t") + name(node.getChild(0)) + "\t" + type(node.getChild(1)));
            }
            case HiveParser.TOK_TABLELOCATION -> lines.add("location\t" + unquoted(node.getChild(0).getText()));
            case HiveParser.TOK_TABLEPROPERTY ->
                lines.add("property\t" + unquoted(node.getChild(0).getText()) + "\t" + unquoted(node.getChild(1).getText()));
            case HiveParser.TOK_FILEFORMAT_GENERIC -> lines.add("stored as\t" + node.getChild(0).getText());
            default -> {
                for (int i = 0; i < node.getChildCount(); i++) {
                    describe(node.getChild(i), lines);
                }
            }
        }
    }

    /** Spells a type as Trino does. */
    private static String type(Tree node) {
        return switch (node.getType()) {
            case HiveParser.TOK_STRING -> "varchar";
            case HiveParser.TOK_BIGINT -> "bigint";
            case HiveParser.TOK_INT -> "integer";
            case HiveParser.TOK_SMALLINT -> "smallint";
            case HiveParser.TOK_TINYINT -> "tinyint";
            case HiveParser.TOK_DOUBLE -> "double";
            case HiveParser.TOK_FLOAT -> "real";
            case HiveParser.TOK_BOOLEAN -> "boolean";
            case HiveParser.TOK_BINARY -> "varbinary";
            case HiveParser.TOK_DATE -> "date";
            case HiveParser.TOK_TIMESTAMP -> "timestamp(6)";
            case HiveParser.TOK_DECIMAL -> "decimal(" + words(node, ",") + ")";
            case HiveParser.TOK_LIST -> "array(" + type(node.getChild(0)) + ")";
            case HiveParser.TOK_STRUCT -> {
                List<String> fields = new ArrayList<>();
                Tree list = node.getChild(0);
                for (int i = 0; i < list.getChildCount(); i++) {
                    fields.add(name(list.getChild(i).getChild(0)) + " " + type(list.getChild(i).getChild(1)));
                }
                yield "row(" + String.join(", ", fields) + ")";
            }
            default -> throw new IllegalArgumentException("no type is known for " + node.toStringTree());
        };
    }

    private static String words(Tree node, String between) {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < node.getChildCount(); i++) {
            all.add(name(node.getChild(i)));
        }
        return String.join(between, all);
    }

    /** A name as Hive keeps it: without backticks, in small letters. */
    private static String name(Tree node) {
        return node.getText().replace("`", "").toLowerCase(java.util.Locale.ROOT);
    }

    private static String unquoted(String literal) {
        return literal.substring(1, literal.length() - 1).replace("\\'", "'").replace("\\\\", "\\");
    }
}
